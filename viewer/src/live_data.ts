// A run's figures as its server hands them out, piece by piece
// (cli/live/dashboard.h).

/** Equally long lists; a point is one step, or the means of several in a row. */
export interface LivePoints {
  step: number[];
  steps: number[];
  loss: (number|null)[];
  learning_rate: number[];
  seconds: number[];
  tokens_per_second: number[];
  stall_seconds: number[];
  h2d_bytes: number[];
  d2h_bytes: number[];
  device_bytes: number[];
  device_peak_bytes: number[];
  device_budget_bytes: (number|null)[];
  host_bytes: number[];
  warmup: boolean[];
}

export interface LiveMemory {
  categories: string[];
  device: number[];
  host: number[];
  device_at_peak: number[];
  host_at_peak: number[];
  device_peak_bytes: number;
  host_peak_bytes: number;
}

export interface LiveRun {
  title: string;
  device: string;
  policy: string;
  device_budget_bytes: number|null;
  host_budget_bytes: number|null;
  first_step: number;
  steps: number;
  tokens_per_step: number;
}

/** After which steps the device's budget changed. */
export interface LiveBudgets {
  step: number[];
  from: (number|null)[];
  to: (number|null)[];
  asked_by: string[];
}

export type LiveState = 'running'|'finished'|'interrupted'|'failed';

export interface LiveAnswer {
  version: number;
  run: LiveRun;
  state: LiveState;
  message: string;
  every: number;
  points: LivePoints;
  latest: LivePoints;
  validation: {step: number[], loss: (number|null)[]};
  budgets: LiveBudgets;
  memory: LiveMemory;
}

const kPointLists = [
  'step', 'steps', 'loss', 'learning_rate', 'seconds', 'tokens_per_second',
  'stall_seconds', 'h2d_bytes', 'd2h_bytes', 'device_bytes',
  'device_peak_bytes', 'device_budget_bytes', 'host_bytes', 'warmup',
] as const;

function noPoints(): LivePoints {
  const points = {} as Record<string, unknown[]>;
  for (const name of kPointLists) points[name] = [];
  return points as unknown as LivePoints;
}

/** All that is known of the run at one address. */
export class LiveData {
  run: LiveRun|null = null;
  state: LiveState = 'running';
  message = '';
  points = noPoints();
  latest = noPoints();
  validation: {step: number[], loss: (number|null)[]} = {step: [], loss: []};
  budgets: LiveBudgets = {step: [], from: [], to: [], asked_by: []};
  memory: LiveMemory|null = null;
  private every = 1;

  /** What to ask for next: what is not here yet. */
  query(): string {
    const last = (steps: number[]) => steps[steps.length - 1] ?? 0;
    return `live.json?since=${last(this.points.step)}` +
        `&validated=${last(this.validation.step)}`;
  }

  /**
   * Takes an answer to query(). False: the server has merged its points; all
   * that was here is gone, and is to be asked for anew.
   */
  take(answer: LiveAnswer): boolean {
    if (answer?.version !== 1) {
      throw new Error('the server is not of this page\'s version');
    }
    const asked = this.points.step.length + this.validation.step.length > 0;
    if (asked && this.every !== answer.every) {
      this.run = null;
      this.points = noPoints();
      this.validation = {step: [], loss: []};
      return false;
    }
    this.run = answer.run;
    this.state = answer.state;
    this.message = answer.message;
    this.every = answer.every;
    this.latest = answer.latest;
    this.budgets = answer.budgets;
    this.memory = answer.memory;
    for (const name of kPointLists) {
      (this.points[name] as unknown[]).push(...answer.points[name]);
    }
    this.validation.step.push(...answer.validation.step);
    this.validation.loss.push(...answer.validation.loss);
    return true;
  }

  /** The last step that is over; before the first, the one before it. */
  get step(): number {
    return this.latest.step[0] ?? (this.run ? this.run.first_step - 1 : 0);
  }

  /** Until the last step, at the pace of late; -1: not known. */
  get secondsLeft(): number {
    const seconds = this.points.seconds.slice(-20);
    if (!this.run || seconds.length === 0) return -1;
    const mean = seconds.reduce((a, b) => a + b, 0) / seconds.length;
    return mean * (this.run.steps - this.step);
  }
}
