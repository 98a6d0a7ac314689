// Numbers for people: bytes, times, counts. The program's own words for sizes
// are the same (base/units.h).
import type {BudgetChange} from './data';

const kByteUnits = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

/** Three significant digits, or all before the point: 39.4, 1.74, 1023. */
function digits(value: number): string {
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

export function formatBytes(bytes: number): string {
  let unit = 0;
  let value = bytes;
  while (Math.abs(value) >= 1023.5 && unit + 1 < kByteUnits.length) {
    value /= 1024;
    unit++;
  }
  return unit === 0 ? `${Math.round(value)} B` :
                      `${digits(value)} ${kByteUnits[unit]}`;
}

export function formatTime(ns: number): string {
  const size = Math.abs(ns);
  if (size < 999.5) return `${Math.round(ns)} ns`;
  if (size < 999.5e3) return `${digits(ns / 1e3)} µs`;
  if (size < 999.5e6) return `${digits(ns / 1e6)} ms`;
  if (size < 1e12) return `${digits(ns / 1e9)} s`;
  return size < 1e14 ? `${Math.round(ns / 1e9)} s` :
                       `${(ns / 1e9).toPrecision(3)} s`;
}

/** Integers in groups of three, with a narrow space. */
export function formatCount(value: number): string {
  const rounded = Math.round(value);
  if (Math.abs(rounded) >= 1e15) return value.toPrecision(4);
  return String(rounded).replace(/\B(?=(\d{3})+$)/g, '\u202f');
}

export function formatShare(part: number, whole: number): string {
  return whole > 0 ? `${(100 * part / whole).toFixed(1)} %` : '–';
}

/** How `value` differs from `base`: "+3.1 %". */
export function formatChange(value: number, base: number): string {
  if (value === base) return '±0';
  if (base === 0) return '–';
  const percent = 100 * (value - base) / Math.abs(base);
  const sign = percent < 0 ? '−' : '+';
  const size = Math.abs(percent);
  return sign + (size >= 1000 ? '>999' : size.toFixed(size >= 99.5 ? 0 : 1)) +
      ' %';
}

const kFlopUnits = ['FLOP', 'kFLOP', 'MFLOP', 'GFLOP', 'TFLOP', 'PFLOP', 'EFLOP'];

/** Floating-point operations, in steps of a thousand. */
export function formatFlops(flops: number): string {
  let unit = 0;
  let value = flops;
  while (Math.abs(value) >= 999.5 && unit + 1 < kFlopUnits.length) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 ? Math.round(value) : digits(value)} ${
      kFlopUnits[unit]}`;
}

export type Unit = 'ns'|'bytes'|'count'|'bytes_per_s'|'tokens_per_s';

export function formatAs(value: number, unit: string): string {
  switch (unit) {
    case 'ns':
      return formatTime(value);
    case 'bytes':
      return formatBytes(value);
    case 'bytes_per_s':
      return `${formatBytes(value)}/s`;
    case 'tokens_per_s':
      return `${formatCount(value)} tokens/s`;
    default:
      return formatCount(value);
  }
}

/** `text`, or its beginning where it is longer than `limit` characters. */
export function clip(text: string, limit: number): string {
  return text.length <= limit ? text : text.slice(0, limit - 1) + '…';
}

/**
 * `text` in at most `limit` characters. Names are told apart by their ends
 * ("transformer.h.0.attn.c_attn/forward"), so the beginning goes first.
 */
export function clipName(text: string, limit: number): string {
  if (text.length <= limit) return text;
  return limit < 2 ? '' : '…' + text.slice(text.length - limit + 1);
}

/** From what to what the budget changed, and who asked for it. */
export function changeText(
    {from, to, askedBy}: Pick<BudgetChange, 'from'|'to'|'askedBy'>): string {
  const size = (bytes: number|null) =>
      bytes === null ? 'unlimited' : formatBytes(bytes);
  return `${size(from)} → ${size(to)}, ${askedBy}`;
}
