// The places of the marks on an axis, and what is written at them.
import {scaleLinear} from 'd3-scale';
import {formatBytes} from './format';

export interface Tick {
  value: number;
  label: string;
}

export interface Ticks {
  ticks: Tick[];
  /** What labels count from, where that is not 0: "from 1.2034 s". */
  base: string;
}

const kUnits = [
  {size: 1, name: 'ns'}, {size: 1e3, name: 'µs'}, {size: 1e6, name: 'ms'},
  {size: 1e9, name: 's'},
];

/** Marks of time in ns, about `count`. */
export function timeTicks(start: number, end: number, count: number): Ticks {
  const span = end - start;
  if (!(span > 0)) return {ticks: [], base: ''};
  const values = scaleLinear().domain([start, end]).ticks(Math.max(1, count));
  const step = values.length > 1 ? values[1]! - values[0]! : span;
  const largest = Math.max(Math.abs(start), Math.abs(end));
  // Labels that would differ only in their sixth digit count from the first.
  const base = largest / step > 20_000 ? values[0] ?? 0 : 0;
  const reach = base === 0 ? largest : span;
  const unit = [...kUnits].reverse().find((u) => reach >= u.size) ?? kUnits[0]!;
  const power = Math.floor(Math.log10(step / unit.size) + 1e-9);
  const decimals = Math.max(0, Math.min(9, -power));
  return {
    ticks: values.map((value) => ({
      value,
      label: (base !== 0 ? '+' : '') +
          `${((value - base) / unit.size).toFixed(decimals)} ${unit.name}`
              .replace('-', '−'),
    })),
    base: base === 0 ? '' : exactTime(base),
  };
}

/** A time in ns, with all its digits. */
export function exactTime(ns: number): string {
  const unit =
      [...kUnits].reverse().find((u) => Math.abs(ns) >= u.size) ?? kUnits[0]!;
  const text = (ns / unit.size).toFixed(unit.size === 1 ? 0 : 9);
  return `${text.includes('.') ? text.replace(/\.?0+$/, '') : text} ${
      unit.name}`;
}

/** Marks of bytes up to `most`: round in binary units. */
export function byteTicks(most: number, count: number): Tick[] {
  if (!(most > 0) || !Number.isFinite(most)) return [];
  const step = 2 ** Math.ceil(Math.log2(most / Math.max(1, count)));
  const ticks: Tick[] = [];
  for (let value = step; value <= most; value += step) {
    ticks.push({value, label: formatBytes(value).replace(/\.0+ /, ' ')});
  }
  return ticks;
}
