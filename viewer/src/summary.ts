// The summary: where a step's time went, bytes against their bound, the peak
// against its prediction, and what would help.
import {h, swatch} from './dom';
import type {Refusal, Run, Summary} from './data';
import {
  formatAs, formatBytes, formatChange, formatCount, formatFlops, formatShare,
  formatTime,
} from './format';

const kParts: {
  name: string, color: string, help: string, ranks?: boolean,
  key: 'computeNs'|'copyNs'|'optimizerNs'|'networkNs'|'lateNs'|'idleNs',
}[] = [
  {name: 'compute', color: 'backward', key: 'computeNs', help: ''},
  {
    name: 'exposed copies', color: 'fetch', key: 'copyNs',
    help: 'compute stood still until a copy was over',
  },
  {
    name: 'optimizer', color: 'update', key: 'optimizerNs',
    help: 'compute stood still while the host reduced or updated',
  },
  {
    name: 'network', color: 'exchange', key: 'networkNs', ranks: true,
    help: 'compute stood still while parts crossed the network',
  },
  {
    name: 'late ranks', color: 'wait', key: 'lateNs', ranks: true,
    help: 'compute stood still because another rank came late',
  },
  {name: 'idle', color: 'other', key: 'idleNs', help: 'none of these'},
];

function bar(value: number, whole: number, color: string): HTMLElement {
  const part = h('span', {class: 'part'});
  const share = whole > 0 ? Math.max(0, Math.min(1, value / whole)) : 0;
  part.style.width = `${100 * share}%`;
  part.style.backgroundColor = `var(--${color})`;
  return part;
}

/** A line of the panel: what, how much, and beside what. */
function line(
    name: string, value: string, note = '', color = '',
    title = ''): HTMLElement {
  return h(
      'div', {class: 'line', title: title || undefined},
      h('span', {class: 'name'}, color ? swatch(color) : null, name),
      h('span', {class: 'value'}, value), h('span', {class: 'note'}, note));
}

/** Where blocks of memory lie, and how often they are moved. */
function addressLines(summary: Summary): HTMLElement[] {
  const {plannedAddresses, predictedMoves, predictedMovedBytes} = summary;
  const foreseen = predictedMoves === null || plannedAddresses ? '' :
      `foreseen: ${formatCount(predictedMoves)} of ${
          formatBytes(predictedMovedBytes ?? 0)} a step`;
  const lines = plannedAddresses === null ? [] : [line(
      'addresses', plannedAddresses ? 'planned' : 'not planned',
      plannedAddresses ? 'the same in every step' : 'where a hole fits', '',
      'the place of each block of memory on the device')];
  if (plannedAddresses === null && summary.moves === 0) return lines;
  lines.push(line(
      'moved blocks', formatCount(summary.moves),
      summary.moves > 0 ?
          `${formatTime(summary.moveNs)} a step${foreseen && `; ${foreseen}`}` :
          foreseen || 'a step',
      '', 'moves within the device\'s memory, to make one hole of several'));
  return lines;
}

/** What becomes of the activations of the model's blocks. */
function blockLines(summary: Summary): HTMLElement[] {
  const {keptBlocks, hostBlocks, remadeBlocks} = summary;
  const all = keptBlocks + hostBlocks + remadeBlocks;
  if (all === 0) return [];
  const of = (count: number) => `${formatCount(count)} of ${formatCount(all)}`;
  return [
    h('div', {class: 'gap'}),
    line('blocks kept', of(keptBlocks), formatBytes(summary.keptBytes), '',
         'whose activations stay on the device until backward'),
    line('by the host', of(hostBlocks), formatBytes(summary.hostBytes), '',
         'whose activations may be on the host in between'),
    line('made again', of(remadeBlocks),
         remadeBlocks > 0 ? `spares ${formatBytes(summary.sparedBytes)}` : '',
         '', 'whose forward runs once more in backward'),
  ];
}

export function summaryPanel(
    summary: Summary, run: Run|null, heading = 'Summary'): HTMLElement {
  const split = h('div', {class: 'split', 'aria-hidden': 'true'});
  const lines: HTMLElement[] = [];
  const several = (run?.worldSize ?? 1) > 1;
  for (const {name, color, key, help, ranks} of kParts) {
    if (ranks && !several) continue;
    const value = summary[key];
    split.append(bar(value, summary.stepNs, color));
    lines.push(line(
        name, formatTime(value), formatShare(value, summary.stepNs), color,
        help));
  }
  const {h2dBytes, leastH2dBytes, deviceBudgetBytes} = summary;
  const moved = leastH2dBytes > 0 ?
      `${(h2dBytes / leastH2dBytes).toFixed(2)} × the least` :
      'a step';
  const most = deviceBudgetBytes ??
      Math.max(summary.devicePeakBytes, summary.predictedPeakBytes);
  const memory = h('div', {class: 'split', 'aria-hidden': 'true'},
                   bar(summary.devicePeakBytes, most, 'category-0'));
  return h(
      'section', {class: 'summary', 'aria-label': heading},
      h('h2', {}, heading,
        h('small', {}, summary.steps > 0 ?
              `median of ${formatCount(summary.steps)} steps` :
              'no whole step')),
      h('div', {class: 'headline'},
        h('b', {}, formatTime(summary.stepNs)), ' a step',
        h('span', {class: 'note'}, formatAs(
            summary.tokensPerSecond, 'tokens_per_s'))),
      split, ...lines,
      line('plan foresaw', formatTime(summary.predictedStepNs),
           `actual ${formatChange(summary.stepNs, summary.predictedStepNs)}`),
      summary.flops > 0 && summary.computeNs > 0 ?
          line('computes', formatFlops(summary.flops),
               `at ${formatFlops(summary.flops / summary.computeNs * 1e9)}/s`, '',
               'floating-point operations of a step, from its shapes') :
          null,
      h('div', {class: 'gap'}),
      line('to the device', formatBytes(h2dBytes), moved),
      line('the least', formatBytes(leastH2dBytes), 'that any plan moves'),
      line('from it', formatBytes(summary.d2hBytes), 'a step'),
      several ? line('to other ranks', formatBytes(summary.sentBytes),
                     'a step') : null,
      several ? line('from them', formatBytes(summary.receivedBytes),
                     'a step') : null,
      h('div', {class: 'gap'}),
      line('device peak', formatBytes(summary.devicePeakBytes),
           deviceBudgetBytes === null ? 'no budget' :
               `of ${formatBytes(deviceBudgetBytes)}`),
      memory,
      line('plan foresaw', formatBytes(summary.predictedPeakBytes),
           `actual ${formatChange(summary.devicePeakBytes,
                                  summary.predictedPeakBytes)}`),
      line('host peak', formatBytes(summary.hostPeakBytes),
           run?.hostBudgetBytes ? `of ${formatBytes(run.hostBudgetBytes)}` :
                                  ''),
      ...addressLines(summary), ...blockLines(summary),
      summary.advice.length > 0 ?
          h('ul', {class: 'advice'},
            ...summary.advice.map((text) => h('li', {}, text))) :
          null);
}

/** What a run that was refused needed, and what would help. */
export function refusalPanel(refusal: Refusal, run: Run|null): HTMLElement {
  const needed = refusal.peakBytes + refusal.residentBytes;
  const budget = refusal.tier === 'host' ? run?.hostBudgetBytes :
                                           run?.deviceBudgetBytes;
  const whole = Math.max(needed, budget ?? 0);
  const picture = h(
      'div', {class: 'split tall', 'aria-hidden': 'true'},
      bar(refusal.residentBytes, whole, 'category-0'),
      bar(refusal.peakBytes, whole, 'category-3'));
  if (budget && whole > 0) {
    const mark = h('span', {class: 'mark'});
    mark.style.left = `${100 * budget / whole}%`;
    picture.append(mark);
  }
  const remedy = (name: string, bytes: number|null) => bytes === null ?
      line(name, 'none would do', 'with the other budget as it is') :
      line(name, formatBytes(bytes), `${formatCount(bytes)} bytes`);
  return h(
      'section', {class: 'refusal', 'aria-label': 'Refusal'},
      h('h2', {}, 'This run was refused before its first step'),
      h('p', {class: 'message'}, refusal.message), picture,
      line('must be there', formatBytes(refusal.residentBytes),
           'chunks in use, and reserved', 'category-0'),
      line('the operator needs', formatBytes(refusal.peakBytes), refusal.op,
           'category-3'),
      line('together', formatBytes(needed)),
      budget ? line('budget', formatBytes(budget), refusal.tier, 'budget') :
               null,
      h('h3', {}, 'What would do'),
      remedy('device budget', refusal.smallestDeviceBudgetBytes),
      remedy('host budget', refusal.smallestHostBudgetBytes));
}
