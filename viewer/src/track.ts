// What the pictures of a view have in common: one frame is drawn by each of
// them in its own part of the pane.
import type {Axis} from './axis';
import type {Model} from './model';
import type {Palette} from './palette';
import type {Hits} from './search';

/** Room for names left of the time axis: less where the page is narrow. */
export let gutter = 124;
export function setGutter(pageWidth: number): void {
  gutter = pageWidth < 560 ? 96 : 124;
}
export const kFont = 11;

export interface Box {
  y: number;
  height: number;
}

export interface Frame {
  context: CanvasRenderingContext2D;
  palette: Palette;
  model: Model;
  /** In this view's own time. */
  axis: Axis;
  /** Of the time axis, right of the gutter. */
  width: number;
  hits: Hits|null;
  selectedSpan: number;
  selectedChunk: number;
}

/** A copy of `axis` in a time that starts `origin` later. */
export function shifted(axis: Axis, origin: number): Axis {
  const copy = Object.create(axis) as Axis;
  copy.start = axis.start + origin;
  copy.end = axis.end + origin;
  return copy;
}

/** Runs `draw` within the part right of the gutter, whose left edge is 0. */
export function within(frame: Frame, box: Box, draw: () => void): void {
  const {context, width} = frame;
  context.save();
  context.beginPath();
  context.rect(gutter, box.y, width, box.height);
  context.clip();
  context.translate(gutter, 0);
  draw();
  context.restore();
}

/** Lines where steps begin and end. */
export function drawSteps(frame: Frame, box: Box): void {
  const {context, axis, width, model, palette} = frame;
  context.fillStyle = palette.color('line');
  let last = -Infinity;
  for (const step of model.data.steps) {
    for (const time of [step.start, step.end]) {
      if (time < axis.start || time > axis.end) continue;
      const x = Math.round(axis.pixel(time, width));
      if (x !== last && x - last < 12) continue;
      context.fillRect(x, box.y, 1, box.height);
      last = x;
    }
  }
}
