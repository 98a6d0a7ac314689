// Intervals in rows, made ready for drawing: what is in sight is found by
// bisection, and what is narrower than a pixel is merged, so that a picture
// costs what its pixels cost, not its events.
import type {Axis} from './axis';

/** Intervals of one row by ascending start, as indices into shared columns. */
export class Row {
  /** The latest end up to each item: ascending, whatever the ends are. */
  private readonly reach: Float64Array;

  constructor(
      readonly items: Int32Array, private readonly start: Float64Array,
      private readonly end: Float64Array) {
    this.reach = new Float64Array(items.length);
    let reach = -Infinity;
    items.forEach((item, i) => {
      reach = Math.max(reach, end[item]!);
      this.reach[i] = reach;
    });
  }

  /** The first place whose interval may end after `time`. */
  firstAfter(time: number): number {
    return lowerBound(this.reach, this.items.length, time);
  }

  /** The item that covers `time`, the latest to start; -1: none. */
  at(time: number): number {
    let low = 0;
    let high = this.items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.start[this.items[middle]!]! <= time) low = middle + 1;
      else high = middle;
    }
    // Work of one stream does not overlap; a few steps back bound what a
    // trace that says otherwise can cost.
    for (let i = low - 1; i >= 0 && i >= low - 64; i--) {
      if (this.end[this.items[i]!]! > time) return this.items[i]!;
      if (this.reach[i]! <= time) return -1;
    }
    return -1;
  }

  /** The item nearest to `time`, at most `within` away; -1: none. */
  near(time: number, within: number): number {
    const exact = this.at(time);
    if (exact >= 0) return exact;
    let best = -1;
    let distance = within;
    for (let i = Math.max(0, this.firstAfter(time - within));
         i < this.items.length; i++) {
      const item = this.items[i]!;
      if (this.start[item]! > time + within) break;
      const gap = Math.max(this.start[item]! - time, time - this.end[item]!);
      if (gap < distance) {
        best = item;
        distance = gap;
      }
    }
    return best;
  }

  /**
   * What to draw: calls `wide` for each item of at least a pixel that is in
   * sight, and `narrow` for each stretch of pixels of smaller ones, with the
   * class that fills most of it. Pixels are clipped to [0, width].
   */
  draw(axis: Axis, width: number, classes: number,
       classOf: (item: number) => number,
       wide: (item: number, x: number, right: number) => void,
       narrow: (classIndex: number, x: number, right: number) => void): void {
    const {start, end, items} = this;
    const scale = width / axis.span;
    const from = axis.start;
    const until = axis.end;
    const share = new Float64Array(classes);
    let column = -1;
    // Adjacent pixels of one class are one stretch.
    let stretch = -1;
    let stretchFrom = 0;
    let stretchTo = 0;
    const flushStretch = () => {
      if (stretch >= 0) narrow(stretch, stretchFrom, stretchTo);
      stretch = -1;
    };
    const flushColumn = () => {
      if (column < 0) return;
      let best = 0;
      for (let c = 1; c < classes; c++) {
        if (share[c]! > share[best]!) best = c;
      }
      share.fill(0);
      if (best !== stretch || stretchTo !== column) {
        flushStretch();
        stretch = best;
        stretchFrom = column;
      }
      stretchTo = column + 1;
      column = -1;
    };
    for (let i = this.firstAfter(from); i < items.length; i++) {
      const item = items[i]!;
      const begin = start[item]!;
      if (begin > until) break;
      if (end[item]! < from) continue;
      const x = Math.max(0, (begin - from) * scale);
      const right = Math.min(width, (end[item]! - from) * scale);
      if (right - x >= 1) {
        flushColumn();
        flushStretch();
        wide(item, x, right);
        continue;
      }
      const pixel = Math.min(Math.floor(x), width - 1);
      if (pixel !== column) {
        flushColumn();
        column = pixel;
      }
      // An event of no length is still to be seen.
      share[classOf(item)]! += Math.max(right - x, 1e-6);
    }
    flushColumn();
    flushStretch();
  }
}

/** The first place in the ascending `values` with a value > `limit`. */
export function lowerBound(
    values: ArrayLike<number>, count: number, limit: number): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle]! <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Groups the rows of columns by a number: a Row for each of [0, groups). */
export function group(
    keys: Int32Array, groups: number, start: Float64Array,
    end: Float64Array): Row[] {
  const sizes = new Int32Array(groups);
  for (const key of keys) {
    if (key >= 0 && key < groups) sizes[key]!++;
  }
  const lists = Array.from(sizes, (size) => new Int32Array(size));
  sizes.fill(0);
  keys.forEach((key, i) => {
    if (key >= 0 && key < groups) lists[key]![sizes[key]!++] = i;
  });
  return lists.map((list) => new Row(list, start, end));
}
