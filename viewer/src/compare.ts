// Two runs beside each other: what changed, in numbers and in sentences.
import type {Comparison, ViewData} from './data';
import {h} from './dom';
import {formatAs, formatChange, formatCount} from './format';

/** Room that is there to be used: neither good nor bad. */
const kNeutral = /peak|budget|memory|predicted|least/i;

/** More is better; of all other quantities, less. */
const kMoreIsBetter = new Set(['tokens_per_s', 'bytes_per_s']);

function change(a: number, b: number, unit: string): string {
  if (!Number.isFinite(a) || !Number.isFinite(b)) return '–';
  // Nothing has no share.
  return a === 0 && b > 0 ? `+${formatAs(b, unit)}` : formatChange(b, a);
}

export function comparisonPanel(
    comparison: Comparison, views: ViewData[]): HTMLElement {
  // The row's name says what is counted.
  const value = (of: number, unit: string) => !Number.isFinite(of) ? '–' :
      unit === 'tokens_per_s' ? formatCount(of) : formatAs(of, unit);
  const rows = comparison.rows.map(({name, unit, a, b}) => {
    const known = Number.isFinite(a) && Number.isFinite(b);
    const neutral = unit === 'count' || kNeutral.test(name);
    const gain = !known || neutral || a === b ? 0 :
        (b > a) === kMoreIsBetter.has(unit)            ? 1 :
                                                         -1;
    return h(
        'tr', {}, h('th', {scope: 'row'}, name), h('td', {}, value(a, unit)),
        h('td', {}, value(b, unit)),
        h('td', {class: gain > 0 ? 'good' : gain < 0 ? 'bad' : ''},
          change(a, b, unit)));
  });
  return h(
      'section', {class: 'comparison', 'aria-label': 'Comparison'},
      h('h2', {}, 'What changed'),
      h('div', {class: 'pair'},
        h('b', {}, 'A'), h('span', {}, views[0]!.source),
        h('b', {}, 'B'), h('span', {}, views[1]!.source)),
      h('table', {},
        h('thead', {}, h('tr', {}, h('th', {}, ''), h('th', {}, 'A'),
                         h('th', {}, 'B'), h('th', {}, 'change'))),
        h('tbody', {}, ...rows)),
      comparison.notes.length > 0 ?
          h('ul', {class: 'changes'},
            ...comparison.notes.map((note) => h('li', {}, note))) :
          null);
}
