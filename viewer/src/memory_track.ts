// Device memory over time, stacked by category, below the line of the budget of
// each moment, with a mark where that changed, and the plan's curve.
import type {Axis} from './axis';
import {fitting} from './canvas';
import type {BudgetChange, Curve, Memory, Peak, Run, ViewData} from './data';
import {changeText, clipName, formatBytes} from './format';
import {lowerBound} from './runs';
import {byteTicks} from './scale';
import {type Box, type Frame, drawSteps, gutter, kFont, within} from './track';

/**
 * Points of a curve to draw: of those within one pixel the highest. The last
 * one holds until `end`.
 */
export function columns(
    curve: Curve, axis: Axis, width: number, end: number,
    draw: (point: number, x: number, right: number) => void): void {
  const {time, total} = curve;
  const count = time.length;
  const scale = width / axis.span;
  let i = Math.max(0, lowerBound(time, count, axis.start) - 1);
  while (i < count && time[i]! <= axis.end) {
    const x = Math.max(0, Math.round((time[i]! - axis.start) * scale));
    let best = i;
    let next = i + 1;
    // All whose time is over within this pixel.
    while (next < count && (time[next]! - axis.start) * scale < x + 0.5) {
      if (total[next]! > total[best]!) best = next;
      next++;
    }
    const until = next < count ? time[next]! :
                                 Math.max(time[count - 1]!, end);
    const right =
        Math.min(width, Math.round((until - axis.start) * scale));
    draw(best, x, Math.max(x + 1, right));
    i = next;
  }
}

/** Room above the curve for the names of its peak and of the budget. */
export const kStrip = 17;

export interface MemoryScale {
  /** Bytes at the top. */
  top: number;
}

/**
 * The scale of several views' pictures: what was used and predicted, and each
 * budget unless it is so large that nothing else could be seen.
 */
export function memoryScale(
    views: {memory: Memory, predictedMemory: Curve, budgets: BudgetChange[],
            run: Pick<Run, 'deviceBudgetBytes'>|null}[]): MemoryScale {
  let most = 0;
  for (const {memory, predictedMemory} of views) {
    for (const total of memory.total) most = Math.max(most, total);
    for (const total of predictedMemory.total) most = Math.max(most, total);
  }
  let top = most;
  for (const {run, budgets} of views) {
    for (const budget of [
      run?.deviceBudgetBytes, ...budgets.flatMap(({from, to}) => [from, to])]) {
      if (budget && (most === 0 || budget <= 2.5 * most)) {
        top = Math.max(top, budget);
      }
    }
  }
  return {top: top > 0 ? top * 1.03 : 1};
}

export function drawMemory(frame: Frame, box: Box, scale: MemoryScale): void {
  const {context, palette, model, axis, width} = frame;
  const {memory, categories, predictedMemory, peak} = model.data;
  const bottom = box.y + box.height;
  const height = box.height - kStrip;
  const level = (bytes: number) =>
      Math.round(bottom - bytes / scale.top * height);

  context.font = palette.font(kFont);
  context.textBaseline = 'middle';
  context.textAlign = 'right';
  for (const tick of byteTicks(scale.top, height / 30)) {
    const y = level(tick.value);
    if (y < box.y + 4) continue;
    context.fillStyle = palette.color('faint');
    context.fillRect(gutter, y, width, 1);
    context.fillStyle = palette.color('soft');
    context.fillText(tick.label, gutter - 6, y);
  }
  within(frame, box, () => {
    drawSteps(frame, box);
    // The whole stack is drawn first, then what is left without its topmost
    // part, and so on, each over the last.
    const places: number[] = [];
    columns(memory, axis, width, model.extent.end, (point, x, right) => {
      places.push(point, x, right);
    });
    const n = categories.length;
    const sums = new Float64Array(places.length / 3);
    for (let p = 0; p < sums.length; p++) {
      sums[p] = memory.total[places[3 * p]!]!;
    }
    for (let c = n - 1; c >= 0; c--) {
      context.fillStyle = palette.category(c);
      fillSteps(context, places, sums, level, bottom);
      for (let p = 0; p < sums.length; p++) {
        sums[p]! -= memory.bytes[places[3 * p]! * n + c]!;
      }
    }
    drawPredicted(frame, predictedMemory, level);
    const room = drawBudget(frame, box, level, scale);
    const {start, end} = axis;
    if (peak && peak.time >= start && peak.time <= end) {
      drawPeak(frame, 'peak', peak, box, level, room);
    } else if (places.length > 0) {
      // Of the part that is shown.
      let best = places[0]!;
      for (let p = 3; p < places.length; p += 3) {
        if (memory.total[places[p]!]! > memory.total[best]!) best = places[p]!;
      }
      drawPeak(frame, 'highest here', {
        time: Math.max(start, memory.time[best]!), bytes: memory.total[best]!,
        op: model.op(memory.step[best]!, memory.op[best]!)?.name ?? '',
      }, box, level, room);
    }
  });
}

/** Everything below a curve; neighbours of one height are one rectangle. */
function fillSteps(
    context: CanvasRenderingContext2D, places: number[], sums: Float64Array,
    level: (bytes: number) => number, bottom: number): void {
  let from = -1;
  let to = -1;
  let top = 0;
  for (let p = 0; p <= sums.length; p++) {
    const last = p === sums.length;
    const y = last ? NaN : level(sums[p]!);
    if (!last && y === top && places[3 * p + 1]! <= to) {
      to = places[3 * p + 2]!;
      continue;
    }
    if (from >= 0 && top < bottom) {
      context.fillRect(from, top, to - from, bottom - top);
    }
    if (last) break;
    from = places[3 * p + 1]!;
    to = places[3 * p + 2]!;
    top = y;
  }
}

function drawPredicted(
    frame: Frame, curve: Curve, level: (bytes: number) => number): void {
  const {context, palette, axis, width} = frame;
  const {time} = curve;
  const inSight = lowerBound(time, time.length, axis.end) -
      lowerBound(time, time.length, axis.start);
  // Steps of a few pixels: lines up and down would cover everything.
  const dense = inSight > 2 * width;
  const trace = (color: string, thickness: number) => {
    context.strokeStyle = color;
    context.lineWidth = thickness;
    context.beginPath();
    let first = true;
    columns(curve, axis, width, frame.model.extent.end, (point, x, right) => {
      const y = level(curve.total[point]!) + 0.5;
      if (first || dense) context.moveTo(x, y);
      else context.lineTo(x, y);
      context.lineTo(right, y);
      first = false;
    });
    context.stroke();
  };
  // A rim first, so that the line can be seen on every category.
  if (!dense) trace(palette.color('panel'), 2.5);
  trace(palette.color('predicted'), 1);
}

/** The device's budget at a time; null: it is unlimited, or not known. */
export function budgetAt(
    {run, budgets}: Pick<ViewData, 'run'|'budgets'>, time: number): number|null {
  const last = changeBefore(budgets, time);
  return last                ? last.to :
         budgets.length > 0 ? budgets[0]!.from :
                               run?.deviceBudgetBytes ?? null;
}

/** The last change of the budget until a time. */
export function changeBefore(
    budgets: BudgetChange[], time: number): BudgetChange|null {
  return budgets.filter((change) => change.time <= time).at(-1) ?? null;
}

/**
 * The budget of each moment, with a mark where it changed. Returns how much of
 * the strip's width is left of the budget's name.
 */
function drawBudget(
    frame: Frame, box: Box, level: (bytes: number) => number,
    scale: MemoryScale): number {
  const {context, palette, model, axis, width} = frame;
  const {budgets} = model.data;
  const color = palette.color('budget');
  const inSight = (budget: number|null): budget is number =>
      budget !== null && budget <= scale.top;
  const shown = budgets.filter(
      ({time}) => time > axis.start && time <= axis.end);
  context.strokeStyle = color;
  context.lineWidth = 1.5;
  context.setLineDash([6, 4]);
  context.beginPath();
  let left = 0;
  let budget = budgetAt(model.data, axis.start);
  for (const change of [...shown, null]) {
    const right = change ? axis.pixel(change.time, width) : width;
    if (inSight(budget)) {
      const y = level(budget) + 0.5;
      context.moveTo(left, y);
      context.lineTo(right, y);
    }
    left = right;
    if (change) budget = change.to;
  }
  context.stroke();
  context.setLineDash([]);
  drawChanges(frame, shown, box, level, scale);
  const text = budget === null ? 'no budget' :
      inSight(budget)          ? `budget ${formatBytes(budget)}` :
                                 `budget ${formatBytes(budget)} ↑`;
  context.font = palette.font(kFont);
  context.textAlign = 'right';
  context.fillStyle = color;
  context.fillText(text, width - 4, box.y + kStrip / 2);
  return width - 4 - context.measureText(text).width - 12;
}

/** A line where the budget changed and, where there is room, what it was. */
function drawChanges(
    frame: Frame, changes: BudgetChange[], box: Box,
    level: (bytes: number) => number, scale: MemoryScale): void {
  const {context, palette, axis, width} = frame;
  const top = box.y + kStrip;
  const height = (bytes: number|null) =>
      bytes === null || bytes > scale.top ? top : level(bytes);
  context.font = palette.font(kFont);
  context.textAlign = 'left';
  let free = 0;
  for (const change of changes) {
    const x = Math.round(axis.pixel(change.time, width));
    const from = height(change.from);
    const to = height(change.to);
    context.fillStyle = palette.color('budget');
    context.fillRect(x, Math.min(from, to), 2, Math.abs(to - from) + 1);
    context.beginPath();
    context.moveTo(x + 1, to - 5);
    context.lineTo(x + 6, to);
    context.lineTo(x + 1, to + 5);
    context.lineTo(x - 4, to);
    context.closePath();
    context.fill();
    const text = changeText(change);
    const wide = context.measureText(text).width;
    const at = Math.max(2, Math.min(x + 8, width - wide - 4));
    if (at < free) continue;
    context.fillStyle = palette.color('panel');
    context.fillRect(at - 2, top + 1, wide + 4, 15);
    context.fillStyle = palette.color('budget');
    context.fillText(text, at, top + 9);
    free = at + wide + 12;
  }
}

/** A mark where the peak is, and in the strip above it what it is. */
function drawPeak(
    frame: Frame, what: string, peak: Pick<Peak, 'time'|'bytes'|'op'>,
    box: Box, level: (bytes: number) => number, room: number): void {
  const {context, palette, axis, width} = frame;
  const x = Math.round(axis.pixel(peak.time, width));
  const y = Math.max(level(peak.bytes), box.y + kStrip);
  const size = `${what} ${formatBytes(peak.bytes)}`;
  context.font = palette.font(kFont);
  // The operator's name, if enough of it has room to be of use.
  const widthOf = (text: string) => context.measureText(text).width;
  let letters = fitting(room - widthOf(`${size}  `), kFont);
  let text = size;
  for (; letters >= Math.min(24, peak.op.length); letters--) {
    const whole = `${size}  ${clipName(peak.op, letters)}`;
    if (widthOf(whole) > room) continue;
    text = whole;
    break;
  }
  const wide = widthOf(text);
  const left = Math.max(2, Math.min(x - wide / 2, room - wide));
  context.fillStyle = palette.color('text');
  context.textAlign = 'left';
  context.fillText(text, left, box.y + kStrip / 2);
  // From the name to the curve, where they are apart.
  context.fillRect(x, box.y + kStrip - 2, 1, y - box.y - kStrip);
  context.strokeStyle = palette.color('panel');
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x + 0.5, y - 1);
  context.lineTo(x - 4.5, y - 8);
  context.lineTo(x + 5.5, y - 8);
  context.closePath();
  context.stroke();
  context.fill();
}

/** The point whose value holds at a time; -1: before the first. */
export function pointAt(curve: Curve, time: number): number {
  return lowerBound(curve.time, curve.time.length, time) - 1;
}
