// Device memory over time, stacked by category, below the budget's line and the
// plan's curve.
import type {Axis} from './axis';
import {fitting} from './canvas';
import type {Curve, Memory, Peak} from './data';
import {clipName, formatBytes} from './format';
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
  return {top: top > 0 ? top * 1.03 : 1};
}

export function drawMemory(frame: Frame, box: Box, scale: MemoryScale): void {
  const {context, palette, model, axis, width} = frame;
  const {memory, categories, predictedMemory, run, peak} = model.data;
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
    const room =
        drawBudget(frame, run?.deviceBudgetBytes ?? null, box, level, scale);
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

/** Returns how much of the strip's width is left of the budget's name. */
function drawBudget(
    frame: Frame, budget: number|null, box: Box,
    level: (bytes: number) => number, scale: MemoryScale): number {
  const {context, palette, width} = frame;
  const color = palette.color('budget');
  const inSight = budget !== null && budget <= scale.top;
  if (inSight) {
    const y = level(budget);
    context.strokeStyle = color;
    context.lineWidth = 1.5;
    context.setLineDash([6, 4]);
    context.beginPath();
    context.moveTo(0, y + 0.5);
    context.lineTo(width, y + 0.5);
    context.stroke();
    context.setLineDash([]);
  }
  const text = budget === null ? 'no budget' :
      inSight                  ? `budget ${formatBytes(budget)}` :
                                 `budget ${formatBytes(budget)} ↑`;
  context.font = palette.font(kFont);
  context.textAlign = 'right';
  context.fillStyle = color;
  context.fillText(text, width - 4, box.y + kStrip / 2);
  return width - 4 - context.measureText(text).width - 12;
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
