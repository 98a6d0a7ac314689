// What a run's server answers (cli/live/dashboard.h), with figures that follow
// from the step's number.
import type {LiveAnswer, LiveBudgets, LivePoints, LiveState} from '../src/live_data';

export function livePoints(steps: number[]): LivePoints {
  const of = <T>(value: (step: number) => T) => steps.map(value);
  return {
    step: of((s) => s),
    steps: of(() => 1),
    loss: of((s) => 10 / s),
    learning_rate: of((s) => s / 1000),
    seconds: of(() => 0.5),
    tokens_per_second: of((s) => 1000 + s),
    stall_seconds: of(() => 0.125),
    h2d_bytes: of((s) => 1024 * s),
    d2h_bytes: of((s) => 512 * s),
    device_bytes: of(() => 3 << 20),
    device_peak_bytes: of(() => 7 << 20),
    device_budget_bytes: of(() => 8 << 20),
    host_bytes: of(() => 20 << 20),
    warmup: of((s) => s === 1),
  };
}

export interface LiveOptions {
  title?: string;
  first?: number;
  every?: number;
  state?: LiveState;
  message?: string;
  validated?: number[];
  budgets?: LiveBudgets;
}

export function liveAnswer(
    steps: number[], options: LiveOptions = {}): LiveAnswer {
  const validated = options.validated ?? [];
  return {
    version: 1,
    run: {
      title: options.title ?? 'gpt2, 2 layers of 16, fp32',
      device: 'host',
      policy: 'auto',
      device_budget_bytes: 8 << 20,
      host_budget_bytes: null,
      first_step: options.first ?? 1,
      steps: 100,
      tokens_per_step: 64,
    },
    state: options.state ?? 'running',
    message: options.message ?? '',
    every: options.every ?? 1,
    points: livePoints(steps),
    latest: livePoints(steps.slice(-1)),
    validation: {step: validated, loss: validated.map((s) => s + 0.5)},
    budgets: options.budgets ?? {step: [], from: [], to: [], asked_by: []},
    memory: {
      categories: ['parameters', 'gradients', 'optimizer states'],
      device: [1 << 20, 0, 2 << 20],
      host: [4 << 20, 0, 16 << 20],
      device_at_peak: [1 << 20, 4 << 20, 2 << 20],
      host_at_peak: [4 << 20, 0, 16 << 20],
      device_peak_bytes: 7 << 20,
      host_peak_bytes: 20 << 20,
    },
  };
}
