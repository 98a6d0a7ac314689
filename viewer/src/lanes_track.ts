// A lane per stream: what it did, and in stripes where it stood still. Only the
// first, of compute, is full height then: where the others wait for their turn,
// nothing is lost, and a thin line says so.
import {fitting, haloText} from './canvas';
import {clip, clipName} from './format';
import type {Model} from './model';
import {type Box, type Frame, drawSteps, gutter, kFont, within} from './track';

/** Colours of all work, in the order of their classes when merged. */
export function workColors(model: Model): string[] {
  const kinds = model.data.kinds.map((kind) => kind.color)
                    .filter((color) => color !== 'other');
  return [...new Set(
      ['wait', 'forward', 'backward', 'optimizer', ...kinds, 'other'])];
}

export function laneBox(box: Box, lanes: number, lane: number): Box {
  const height = box.height / Math.max(1, lanes);
  return {y: Math.round(box.y + lane * height), height: Math.floor(height) - 3};
}

export function laneAt(box: Box, lanes: number, y: number): number {
  const lane = Math.floor((y - box.y) / (box.height / Math.max(1, lanes)));
  return lane >= 0 && lane < lanes ? lane : -1;
}

export function drawLanes(frame: Frame, box: Box): void {
  const {context, palette, model, axis, width, hits} = frame;
  const {data, lanes} = model;
  const {spans} = data;
  // A class per span would be a lookup of strings per span and frame.
  const {colors, classes} = classesOf(model);
  const faded = colors.length;
  const striped = palette.waitPattern(context);

  within(frame, box, () => drawSteps(frame, box));
  lanes.forEach((row, lane) => {
    const place = laneBox(box, lanes.length, lane);
    // Waits for another rank are lost time; other lanes wait for their turn.
    const late = data.streams[lane]!.name === 'network';
    context.font = palette.font(kFont);
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    context.fillStyle = palette.color('text');
    context.fillText(
        clip(model.laneName(lane), fitting(gutter - 12, kFont)), gutter - 6,
        place.y + place.height / 2);
    within(frame, place, () => {
      context.fillStyle = palette.color('faint');
      context.fillRect(0, place.y, width, place.height);
      const paint = (index: number, x: number, right: number) => {
        const dim = index >= faded;
        const name = colors[dim ? index - faded : index]!;
        context.globalAlpha = dim ? 0.25 : 1;
        context.fillStyle = name === 'wait' && right - x > 3 ?
            striped :
            palette.color(name);
        const quiet = name === 'wait' && lane > 0;
        if (quiet) {
          context.globalAlpha *= 0.6;
          context.fillStyle = palette.color(late ? name : 'soft');
        }
        const height = quiet ? 2 : place.height;
        context.fillRect(
            x, place.y + (place.height - height >> 1), right - x, height);
        context.globalAlpha = 1;
      };
      const classOf = (span: number) =>
          classes[span]! + (hits && !hits.isHit[span] ? faded : 0);
      context.textAlign = 'left';
      row.draw(
          axis, width, 2 * faded, classOf,
          (span, x, right) => {
            // A gap of a pixel tells neighbours apart, where there is room.
            const gap = right - x > 4 ? 1 : 0;
            paint(classOf(span), x, right - gap);
            if (right - x < 34 || place.height < 12) return;
            if (lane > 0 && spans.kind[span]! < 0) return;
            const color = palette.color(colors[classes[span]!]!);
            const dim = hits !== null && !hits.isHit[span];
            const ink = dim ? palette.color('soft') : palette.on(color);
            const room = fitting(right - x - 8, kFont);
            const name = model.label(span);
            const text = name.includes('.') ? clipName(name, room) :
                                              clip(name, room);
            const y = place.y + place.height / 2 + 0.5;
            // Stripes need a rim to be read on.
            if (spans.kind[span]! < 0 && !dim) {
              haloText(context, text, x + 4, y, ink, color);
            } else {
              context.fillStyle = ink;
              context.fillText(text, x + 4, y);
            }
          },
          paint);
      const selected = frame.selectedSpan;
      if (selected >= 0 && spans.stream[selected] === lane) {
        outline(frame, place, spans.start[selected]!, spans.end[selected]!);
      }
    });
  });
}

interface Classes {
  colors: string[];
  /** By span: an index of colors. */
  classes: Uint8Array;
}

const classCache = new WeakMap<Model, Classes>();

function classesOf(model: Model): Classes {
  let result = classCache.get(model);
  if (!result) {
    const colors = workColors(model);
    const classOf = new Map(colors.map((name, i) => [name, i]));
    const classes = new Uint8Array(model.data.spans.count);
    for (let i = 0; i < classes.length; i++) {
      classes[i] = classOf.get(model.colorName(i))!;
    }
    result = {colors, classes};
    classCache.set(model, result);
  }
  return result;
}

/** A frame around what is selected, wide enough to be seen. */
export function outline(
    frame: Frame, place: Box, start: number, end: number): void {
  const {context, palette, axis, width} = frame;
  const x = axis.pixel(start, width);
  const right = Math.max(x + 3, axis.pixel(end, width));
  // Beyond the edges nothing is seen, and huge numbers would be inexact.
  const from = Math.max(-4, x);
  const to = Math.min(width + 4, right);
  if (to < from) return;
  context.lineWidth = 2;
  context.strokeStyle = palette.color('select');
  context.strokeRect(from, place.y + 1, to - from, place.height - 2);
}
