// The time axis itself, and above it the whole trace at once with the part that
// is shown.
import type {Axis} from './axis';
import {clip} from './format';
import type {Model} from './model';
import type {Palette} from './palette';
import {timeTicks} from './scale';
import {type Box, kFont, gutter, shifted} from './track';

export interface RulerFrame {
  context: CanvasRenderingContext2D;
  palette: Palette;
  models: Model[];
  origins: number[];
  axis: Axis;
  width: number;
}

export function drawRuler(frame: RulerFrame, box: Box): void {
  const {context, palette, axis, width, models, origins} = frame;
  context.font = palette.font(kFont);
  context.textBaseline = 'middle';
  const {ticks, base} = timeTicks(axis.start, axis.end, width / 110);
  context.fillStyle = palette.color('soft');
  context.textAlign = 'right';
  context.fillText(
      base ? `from ${clip(base, 18)}` : 'time', gutter - 6, box.y + 9);
  context.save();
  context.beginPath();
  context.rect(gutter, box.y, width, box.height);
  context.clip();
  context.translate(gutter, 0);
  context.textAlign = 'left';
  for (const tick of ticks) {
    const x = Math.round(axis.pixel(tick.value, width));
    context.fillStyle = palette.color('line');
    context.fillRect(x, box.y + 2, 1, box.height - 2);
    context.fillStyle = palette.color('text');
    if (x + 6 + context.measureText(tick.label).width > width) continue;
    context.fillText(tick.label, x + 4, box.y + 9);
  }
  // Names of steps where they begin: of the first view, where there are two.
  const model = models[0]!;
  const own = shifted(axis, origins[0]!);
  let clear = -Infinity;
  context.fillStyle = palette.color('soft');
  model.data.steps.forEach((step, i) => {
    if (step.end < own.start || step.start > own.end) return;
    const from = Math.max(0, own.pixel(step.start, width));
    const to = Math.min(width, own.pixel(step.end, width));
    const text = model.stepName(i) + (step.whole ? '' : ' (cut off)');
    const wide = context.measureText(text).width;
    if (to - from < wide + 10 || from < clear) return;
    context.fillText(text, from + 4, box.y + 24);
    clear = from + wide + 8;
  });
  context.restore();
}

/** Shares of a pixel's time, of the first lane: [work, wait] pairs. */
export function usage(model: Model, extent: {start: number, end: number},
                      pixels: number): Float64Array {
  const result = new Float64Array(2 * pixels);
  const {spans} = model.data;
  const scale = pixels / (extent.end - extent.start);
  for (const span of model.lanes[0]?.items ?? []) {
    const from = Math.max(0, (spans.start[span]! - extent.start) * scale);
    const to = Math.min(pixels, (spans.end[span]! - extent.start) * scale);
    if (model.isPause(span)) continue;
    const which = model.isWait(span) ? 1 : 0;
    for (let p = Math.floor(from); p < to; p++) {
      result[2 * p + which]! += Math.min(to, p + 1) - Math.max(from, p);
    }
  }
  return result;
}

export function drawOverview(
    frame: RulerFrame, box: Box, shares: Float64Array[]): void {
  const {context, palette, axis, width} = frame;
  context.font = palette.font(kFont);
  context.textBaseline = 'middle';
  context.textAlign = 'right';
  context.fillStyle = palette.color('soft');
  context.fillText('overview', gutter - 6, box.y + box.height / 2);
  const height = Math.floor(box.height / shares.length) - 1;
  shares.forEach((share, i) => {
    const y = box.y + i * (height + 1);
    context.fillStyle = palette.color('faint');
    context.fillRect(gutter, y, width, height);
    for (let p = 0; 2 * p < share.length; p++) {
      const wait = Math.min(1, share[2 * p + 1]!) * height;
      const work = Math.min(1, share[2 * p]!) * height;
      context.fillStyle = palette.color('forward');
      context.fillRect(gutter + p, y + height - work, 1, work);
      context.fillStyle = palette.color('wait');
      context.fillRect(gutter + p, y + height - work - wait, 1, wait);
    }
  });
  const {extent} = axis;
  const whole = extent.end - extent.start;
  const x = gutter + (axis.start - extent.start) / whole * width;
  const right = gutter + (axis.end - extent.start) / whole * width;
  context.fillStyle = palette.color('page');
  context.globalAlpha = 0.72;
  context.fillRect(gutter, box.y, x - gutter, box.height);
  context.fillRect(right, box.y, gutter + width - right, box.height);
  context.globalAlpha = 1;
  context.strokeStyle = palette.color('accent');
  context.lineWidth = 1.5;
  context.strokeRect(
      x, box.y + 0.5, Math.max(3, right - x), box.height - 1.5);
}
