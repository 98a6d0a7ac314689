// Title: Castor run
//
// A run while it goes on: asks the program that trains for what is new, every
// second, and says how the run ended. The next run at the same port (the same
// one, resumed) has another address and turns this page away.
import 'uplot/dist/uPlot.min.css';
import './palette.css';
import './dashboard.css';

import {h, replace, swatch} from './dom';
import {changeText, formatBytes, formatCount, formatShare, formatTime} from
    './format';
import {LiveChart, type Mark} from './live_chart';
import {LiveData} from './live_data';
import {applyTheme, kCategoryColors, readPalette} from './palette';

const kAskEvery = 1000;  // ms
// A budget far above what is in use would flatten the curve below it.
const kFarBudget = 4;
// So many of the latest changes of the budget have a line.
const kShownChanges = 4;

const data = new LiveData();
let palette = readPalette();
let lost = false;
let turnedAway = false;

const title = h('h1', {}, 'Castor run');
const state = h('p', {id: 'state', role: 'status'}, 'asking the run …');
const progress = h('progress', {max: 1, value: 0, 'aria-label': 'steps done'});
const figures = h('dl', {id: 'figures'});
const memory = h('section', {class: 'memory', 'aria-label': 'Memory now'});

const seconds = (value: number) => formatTime(value * 1e9);
const colors = () => palette;
const charts = {
  loss: new LiveChart({
    title: 'Loss',
    format: (v) => v.toFixed(3),
    curves: [
      {label: 'training', color: 'accent'},
      {label: 'validation', color: 'category-1', dots: true},
    ],
  }, colors),
  speed: new LiveChart({
    title: 'Tokens per second',
    format: formatCount,
    curves: [{label: 'tokens/s', color: 'accent'}],
    fromZero: true,
  }, colors),
  time: new LiveChart({
    title: 'Time of a step, and of it waiting',
    format: seconds,
    curves: [
      {label: 'step', color: 'accent'},
      {label: 'waiting', color: 'wait'},
    ],
    fromZero: true,
  }, colors),
  bus: new LiveChart({
    title: 'Bus, bytes a step',
    format: formatBytes,
    binary: true,
    curves: [
      {label: 'to the device', color: 'fetch'},
      {label: 'to the host', color: 'copy_back'},
    ],
    fromZero: true,
  }, colors),
  device: new LiveChart({
    title: 'Device memory',
    format: formatBytes,
    binary: true,
    curves: [
      {label: 'in use', color: 'accent'},
      {label: 'peak', color: 'category-2'},
      {label: 'budget', color: 'budget', dashed: true},
    ],
    fromZero: true,
  }, colors),
  host: new LiveChart({
    title: 'Host memory',
    format: formatBytes,
    binary: true,
    curves: [
      {label: 'in use', color: 'accent'},
      {label: 'budget', color: 'budget', dashed: true},
    ],
    fromZero: true,
  }, colors),
  rate: new LiveChart({
    title: 'Learning rate',
    format: (v) => v === 0 ? '0' : v.toPrecision(3),
    curves: [{label: 'learning rate', color: 'accent'}],
    fromZero: true,
  }, colors),
};

/** What the run is doing, in a sentence. */
function stateText(): string {
  const run = data.run;
  const next = 'another run is here now: open the address that it printed';
  if (!run) return turnedAway ? next : lost ? 'no run answers here; asking again' : 'asking the run …';
  const at = `step ${formatCount(data.step)} of ${formatCount(run.steps)}`;
  switch (data.state) {
    case 'finished':
      return `finished after ${at}`;
    case 'interrupted':
      return `interrupted after ${at}`;
    case 'failed':
      return `failed after ${at}: ${data.message}`;
    case 'running': {
      if (turnedAway) return `stopped or killed after ${at}; ${next}`;
      if (lost) {
        return `the run no longer answers: it was stopped or killed after ${
            at}; asking again`;
      }
      const left = data.secondsLeft;
      return left < 0 ? `running: ${at}` :
                        `running: ${at}, ${seconds(left)} left`;
    }
  }
}

function showState(): void {
  state.textContent = stateText();
  state.dataset['state'] =
      data.run && data.state !== 'running' ? data.state :
      lost || turnedAway                   ? 'lost' :
                                             'running';
}

function figure(name: string, value: string): HTMLElement {
  return h('div', {}, h('dt', {}, name), h('dd', {}, value));
}

function showFigures(): void {
  const latest = data.latest;
  const loss = latest.loss[0] ?? null;
  const validation = data.validation.loss.at(-1) ?? null;
  const fixed = (value: number|null) =>
      value === null ? '–' : value.toFixed(4);
  const of = (list: number[], format: (v: number) => string) =>
      list.length === 0 ? '–' : format(list[0]!);
  replace(
      figures, figure('loss', fixed(loss)),
      figure('validation loss', fixed(validation)),
      figure('tokens/s', of(latest.tokens_per_second, formatCount)),
      figure('step', of(latest.seconds, seconds)),
      figure(
          'waiting', latest.step.length === 0 ?
              '–' :
              formatShare(latest.stall_seconds[0]!, latest.seconds[0]!)),
      figure('bus, to the device', of(latest.h2d_bytes, formatBytes)),
      figure('bus, to the host', of(latest.d2h_bytes, formatBytes)),
      figure('learning rate', of(latest.learning_rate, (v) => v.toPrecision(3))));
}

/** A bar of what is in use, by category, of the budget or of itself. */
function bar(bytes: number[], budget: number|null): HTMLElement {
  const used = bytes.reduce((a, b) => a + b, 0);
  const whole = Math.max(used, budget ?? 0, 1);
  return h('div', {class: 'bar', 'aria-hidden': 'true'}, ...bytes.map((n, i) => {
    const part = h('span');
    part.style.width = `${100 * n / whole}%`;
    part.style.background = `var(--category-${i % kCategoryColors})`;
    return part;
  }));
}

function showMemory(): void {
  const now = data.memory;
  const run = data.run;
  if (!now || !run) return;
  const sum = (list: number[]) => list.reduce((a, b) => a + b, 0);
  const budget = (bytes: number|null) =>
      bytes === null ? ', without a budget' : ` of ${formatBytes(bytes)}`;
  const row = (cells: string[], head: Node|string) =>
      h('tr', {}, h('th', {scope: 'row'}, head),
        ...cells.map((cell) => h('td', {}, cell)));
  replace(
      memory, h('h2', {}, 'Memory now, by category'),
      `device: ${formatBytes(sum(now.device))}${
          budget(run.device_budget_bytes)}`,
      bar(now.device, run.device_budget_bytes),
      ...budgetMarks().slice(-kShownChanges).map(
          ({step, text}) => h('p', {class: 'change'},
                              `after step ${formatCount(step)}: ${text}`)),
      `host: ${formatBytes(sum(now.host))}${budget(run.host_budget_bytes)}`,
      bar(now.host, run.host_budget_bytes),
      h('table', {},
        h('thead', {}, row(['device', 'at its peak', 'host', 'at its peak'],
                           '')),
        h('tbody', {}, ...now.categories.map(
            (name, i) => row(
                [
                  now.device[i]!, now.device_at_peak[i]!, now.host[i]!,
                  now.host_at_peak[i]!,
                ].map(formatBytes),
                h('span', {}, swatch(`category-${i % kCategoryColors}`),
                  name)))),
        h('tfoot', {}, row(
            [
              sum(now.device), now.device_peak_bytes, sum(now.host),
              now.host_peak_bytes,
            ].map(formatBytes),
            'all'))));
}

/** The budgets as a curve, where they are near what is in use. */
function budgetCurve(
    budgets: (number|null)[], used: number[]): (number|null)[] {
  const far = kFarBudget * Math.max(...used, 0);
  return budgets.map((bytes) => bytes !== null && bytes < far ? bytes : null);
}

/** The changes of the budget, for the chart and for people who read. */
function budgetMarks(): Mark[] {
  const {step, from, to, asked_by} = data.budgets;
  return step.map((at, i) => ({
    step: at,
    text: changeText({from: from[i]!, to: to[i]!, askedBy: asked_by[i]!}),
  }));
}

function showCharts(): void {
  const p = data.points;
  const run = data.run;
  // Evaluations lie on the points of their steps; where there is none (points
  // of several steps, or the last one not whole) on the next.
  const evaluated: (number|null)[] = p.step.map(() => null);
  let at = 0;
  data.validation.step.forEach((step, i) => {
    while (at < p.step.length && p.step[at]! < step) at++;
    if (at < p.step.length) evaluated[at] = data.validation.loss[i]!;
  });
  charts.loss.show(p.step, [p.loss, evaluated]);
  charts.speed.show(p.step, [p.tokens_per_second]);
  charts.time.show(p.step, [p.seconds, p.stall_seconds]);
  charts.bus.show(p.step, [p.h2d_bytes, p.d2h_bytes]);
  charts.device.show(p.step, [
    p.device_bytes, p.device_peak_bytes,
    budgetCurve(p.device_budget_bytes, p.device_peak_bytes),
  ], budgetMarks());
  charts.host.show(p.step, [
    p.host_bytes,
    budgetCurve(
        p.host_bytes.map(() => run?.host_budget_bytes ?? null), p.host_bytes),
  ]);
  charts.rate.show(p.step, [p.learning_rate]);
}

function show(): void {
  const run = data.run;
  showState();
  if (!run) return;
  const name = `${run.title}; policy ${run.policy} on ${run.device}`;
  title.textContent = name;
  document.title = `${formatCount(data.step)}/${formatCount(run.steps)} ${
      run.title}`;
  progress.max = Math.max(1, run.steps);
  progress.value = data.step;
  showFigures();
  showMemory();
  showCharts();
}

async function ask(): Promise<void> {
  const answer = await fetch(data.query(), {cache: 'no-store'});
  turnedAway = answer.status === 403;
  if (!answer.ok) throw new Error(`${answer.status}`);
  // Asked anew at once where what was here is void.
  if (!data.take(await answer.json())) await ask();
}

async function follow(): Promise<void> {
  while (!turnedAway) {
    try {
      await ask();
      lost = false;
      show();
    } catch {
      lost = true;
      showState();
    }
    await new Promise((done) => setTimeout(done, kAskEvery));
  }
}

function retheme(): void {
  applyTheme('auto');
  palette = readPalette();
  for (const chart of Object.values(charts)) chart.fit();
}

document.body.append(
    h('header', {}, title, state, progress),
    h('main', {}, figures,
      h('div', {id: 'charts'},
        ...Object.values(charts).map((chart) => chart.element), memory)));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', retheme);
addEventListener('resize', retheme);
retheme();
void follow();
