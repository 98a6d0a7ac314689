// Device memory over time, stacked by category, below the budget's line and the
// plan's curve.
import type {Axis} from './axis';
import {fitting, haloText} from './canvas';
import type {Curve, Memory, Peak} from './data';
import {clip, clipName, formatBytes} from './format';
import {lowerBound} from './runs';
import {byteTicks} from './scale';
import {type Box, type Frame, drawSteps, kFont, kGutter, within} from './track';

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

export interface MemoryScale {
  /** Bytes at the top. */
  top: number;
}

/**
 * The scale of several views' pictures: what was used and predicted, and the
 * budget unless that is so large that nothing else could be seen.
 */
export function memoryScale(
    views: {memory: Memory, predictedMemory: Curve,
            run: {deviceBudgetBytes: number|null}|null}[]): MemoryScale {
  let most = 0;
  for (const {memory, predictedMemory} of views) {
    for (const total of memory.total) most = Math.max(most, total);
    for (const total of predictedMemory.total) most = Math.max(most, total);
  }
  let top = most;
  for (const {run} of views) {
    const budget = run?.deviceBudgetBytes;
    if (budget && (most === 0 || budget <= 2.5 * most)) {
      top = Math.max(top, budget);
    }
  }
  return {top: top > 0 ? top * 1.1 : 1};
}

export function drawMemory(frame: Frame, box: Box, scale: MemoryScale): void {
  const {context, palette, model, axis, width} = frame;
  const {memory, categories, predictedMemory, run, peak} = model.data;
  const bottom = box.y + box.height;
  const level = (bytes: number) =>
      Math.round(bottom - bytes / scale.top * box.height);

  context.font = palette.font(kFont);
  context.textBaseline = 'middle';
  context.textAlign = 'right';
  for (const tick of byteTicks(scale.top, box.height / 30)) {
    const y = level(tick.value);
    if (y < box.y + 4) continue;
    context.fillStyle = palette.color('faint');
    context.fillRect(kGutter, y, width, 1);
    context.fillStyle = palette.color('soft');
    context.fillText(tick.label, kGutter - 6, y);
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
    drawBudget(frame, run?.deviceBudgetBytes ?? null, box, level, scale);
    if (peak) drawPeak(frame, peak, box, level);
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

function drawBudget(
    frame: Frame, budget: number|null, box: Box,
    level: (bytes: number) => number, scale: MemoryScale): void {
  const {context, palette, width} = frame;
  const color = palette.color('budget');
  context.textAlign = 'right';
  context.font = palette.font(kFont);
  const inSight = budget !== null && budget <= scale.top;
  const text = budget === null ? 'no budget' :
      inSight                  ? `budget ${formatBytes(budget)}` :
                                 `budget ${formatBytes(budget)} ↑`;
  let y = box.y + 8;
  if (inSight) {
    y = level(budget);
    context.strokeStyle = color;
    context.lineWidth = 1.5;
    context.setLineDash([6, 4]);
    context.beginPath();
    context.moveTo(0, y + 0.5);
    context.lineTo(width, y + 0.5);
    context.stroke();
    context.setLineDash([]);
    y = y - box.y < 16 ? y + 9 : y - 8;
  }
  haloText(context, text, width - 6, y, color, palette.color('panel'));
}

function drawPeak(
    frame: Frame, peak: Peak, box: Box,
    level: (bytes: number) => number): void {
  const {context, palette, axis, width} = frame;
  if (peak.time < axis.start || peak.time > axis.end) return;
  const x = axis.pixel(peak.time, width);
  const y = level(peak.bytes);
  context.fillStyle = palette.color('text');
  context.strokeStyle = palette.color('panel');
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(x, y - 1);
  context.lineTo(x - 5, y - 9);
  context.lineTo(x + 5, y - 9);
  context.closePath();
  context.stroke();
  context.fill();
  const text =
      clip(`peak ${formatBytes(peak.bytes)}`, 40) + '  ' +
      clipName(peak.op, Math.min(60, fitting(width / 2, kFont)));
  const left = x > width * 0.6;
  context.textAlign = left ? 'right' : 'left';
  haloText(
      context, text, left ? x - 9 : x + 9, Math.max(box.y + 7, y - 7),
      palette.color('text'), palette.color('panel'));
}

/** The point whose value holds at a time; -1: before the first. */
export function pointAt(curve: Curve, time: number): number {
  return lowerBound(curve.time, curve.time.length, time) - 1;
}
