// The pictures of one view, below each other on the shared time axis: device
// memory, lanes, residency. Knows what is where; moves nothing by itself.
import type {Axis} from './axis';
import {fitting, Surface} from './canvas';
import {h} from './dom';
import {clip} from './format';
import type {Selection} from './hash';
import {
  drawLanes, laneAt, laneBox, outline, workColors,
} from './lanes_track';
import {drawMemory, type MemoryScale, pointAt} from './memory_track';
import type {Model} from './model';
import {
  kCategoryColors, type Palette, stateColorName,
} from './palette';
import {chunkAt, drawResidency, mostHeight, rowHeight} from './residency_track';
import type {Hits} from './search';
import {type Box, type Frame, gutter, kFont, shifted} from './track';

const kHeading = 18;
/** In place of a heading, where one view's are enough for both. */
const kGap = 5;
const kScrollbar = 12;

export interface PaneState {
  palette: Palette;
  axis: Axis;
  memoryScale: MemoryScale;
  hits: Hits|null;
  selection: Selection|null;
}

export class Pane {
  readonly element: HTMLElement;
  private readonly base = new Surface('base');
  readonly overlay = new Surface('overlay');
  private readonly scroller: HTMLElement;
  private readonly filler: HTMLElement;
  private memoryBox: Box = {y: 0, height: 0};
  private lanesBox: Box = {y: 0, height: 0};
  private residencyBox: Box = {y: 0, height: 0};
  private readonly between: number;
  private readonly legends: Legend[];
  width = 0;
  /** With the names beside the pictures. */
  pageWidth = 0;

  constructor(
      readonly model: Model, readonly view: number, readonly origin: number,
      private readonly title: string, onScroll: () => void) {
    this.between = view === 0 ? kHeading : kGap;
    this.legends = legendsOf(model);
    this.filler = h('div');
    this.scroller = h(
        'div', {class: 'rows-scroll', tabindex: -1, scroll: onScroll},
        this.filler);
    const which = title ? ` ${title}` : '';
    const name = `Timeline${which}: device memory, streams, ` +
        `residency of chunks. Arrow keys or w a s d zoom and pan.`;
    this.overlay.canvas.tabIndex = 0;
    this.overlay.canvas.setAttribute('role', 'img');
    this.overlay.canvas.setAttribute('aria-label', name);
    this.element = h(
        'div', {class: 'pane'}, this.base.canvas, this.overlay.canvas,
        this.scroller);
  }

  /** The part of the height that is no picture. */
  get headings(): number {
    return this.legends.reduce(
        (sum, {entries, title}) => sum + this.headingHeight(entries, title),
        this.title ? kHeading : 0);
  }

  get scroll(): number {
    return this.scroller.scrollTop;
  }

  scrollRows(by: number): void {
    this.scroller.scrollTop += by;
  }

  /** Brings a chunk's row into sight. */
  revealChunk(chunk: number): void {
    const height = rowHeight(this.residencyBox, this.model.chunkCount);
    const y = chunk * height;
    if (y < this.scroll ||
        y + height > this.scroll + this.residencyBox.height) {
      this.scroller.scrollTop = y - this.residencyBox.height / 2;
    }
  }

  layout(width: number, height: number): void {
    this.base.resize(width, height);
    this.overlay.resize(width, height);
    this.width = Math.max(10, width - gutter - kScrollbar);
    const lanes = Math.max(1, this.model.data.streams.length);
    const top = this.title ? kHeading : 0;
    const room = height - this.headings;
    const lane = Math.max(14, Math.min(27, room * 0.26 / lanes));
    const lanesHeight = Math.round(lane * lanes);
    // Memory takes what the chunks' rows, at their most, leave.
    const [first, second, third] = this.legends.map(
        ({entries, title}) => this.headingHeight(entries, title));
    const rest = room - lanesHeight - mostHeight(this.model.chunkCount) - 8;
    const memory = Math.round(
        Math.min(room * 0.5, Math.max(50, room * 0.34, rest)));
    this.memoryBox = {y: top + first!, height: memory};
    this.lanesBox = {
      y: this.memoryBox.y + memory + second!, height: lanesHeight,
    };
    const y = this.lanesBox.y + lanesHeight + third!;
    this.residencyBox = {y, height: Math.max(10, height - y - 2)};
    this.scroller.style.top = `${y}px`;
    this.scroller.style.height = `${this.residencyBox.height}px`;
    const rows = this.model.chunkCount;
    this.filler.style.height =
        `${rows * rowHeight(this.residencyBox, rows)}px`;
  }

  private frame(state: PaneState, surface: Surface): Frame {
    const {selection} = state;
    const own = selection?.view === this.view ? selection : null;
    const {spans} = this.model.data;
    let chunk = own?.kind === 'chunk' ? own.chunk : -1;
    if (own?.kind === 'span') chunk = spans.chunk[own.index]!;
    return {
      context: surface.context, palette: state.palette, model: this.model,
      axis: shifted(state.axis, this.origin), width: this.width,
      hits: state.hits,
      selectedSpan: own?.kind === 'span' ? own.index : -1,
      selectedChunk: chunk,
    };
  }

  draw(state: PaneState): void {
    this.base.clear();
    const frame = this.frame(state, this.base);
    const {context, palette} = frame;
    if (this.title) {
      context.fillStyle = palette.color('sunken');
      context.fillRect(0, 0, this.base.width, kHeading - 1);
      context.fillStyle = palette.color('text');
      context.font = `600 ${palette.font(12)}`;
      context.textAlign = 'left';
      context.textBaseline = 'middle';
      context.fillText(
          clip(this.title, fitting(this.base.width - 10, 12)), 6, 9);
    }
    const boxes = [this.memoryBox, this.lanesBox, this.residencyBox];
    this.legends.forEach(
        (legend, i) => this.heading(frame, boxes[i]!, legend));
    drawMemory(frame, this.memoryBox, state.memoryScale);
    drawLanes(frame, this.lanesBox);
    drawResidency(frame, this.residencyBox, this.scroll);
  }

  private heading(frame: Frame, below: Box, {title, entries}: Legend): void {
    const {context, palette} = frame;
    const top = below.y - this.headingHeight(entries, title);
    context.fillStyle = palette.color('line');
    context.fillRect(0, top, this.base.width, 1);
    if (this.between < kHeading) return;
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    context.font = `600 ${palette.font(kFont)}`;
    context.fillStyle = palette.color('text');
    context.fillText(title, 6, top + kHeading / 2 + 1);
    context.font = palette.font(kFont);
    for (const {entry, x, row} of this.places(entries, title)) {
      const y = top + (row + 0.5) * kHeading + 1;
      context.fillStyle = entry.color === 'wait' ?
          palette.waitPattern(context) :
          palette.color(entry.color);
      const tall = entry.line ? 2 : entry.thin ? 4 : 9;
      context.fillRect(x, y - tall / 2, entry.line ? 14 : 9, tall);
      context.fillStyle = palette.color('soft');
      context.fillText(entry.name, x + (entry.line ? 18 : 13), y);
    }
  }

  /** Where a legend's entries stand: in as many rows as they take. */
  private places(entries: Entry[], title: string):
      {entry: Entry, x: number, row: number}[] {
    let x = Math.max(gutter, 1.15 * textWidth(title) + 16);
    let row = 0;
    return entries.map((entry) => {
      const wide = textWidth(entry.name) + (entry.line ? 32 : 27);
      if (x + wide > this.pageWidth && x > 6) {
        x = 6;
        row++;
      }
      const place = {entry, x, row};
      x += wide;
      return place;
    });
  }

  private headingHeight(entries: Entry[], title: string): number {
    if (this.between < kHeading) return this.between;
    const last = this.places(entries, title).at(-1);
    return kHeading * ((last?.row ?? 0) + 1);
  }

  /** What is at a point of the pane; null: nothing. */
  hit(x: number, y: number, axis: Axis): Selection|null {
    const own = shifted(axis, this.origin);
    const {model, view} = this;
    const inPlot = x >= gutter && x <= gutter + this.width;
    const time = own.time(x - gutter, this.width);
    if (inPlot && inside(this.memoryBox, y)) {
      const index = pointAt(model.data.memory, time);
      return index < 0 ? null : {kind: 'memory', view, index};
    }
    if (inPlot && inside(this.lanesBox, y)) {
      const lane = laneAt(this.lanesBox, model.lanes.length, y);
      const reach = 3 * own.span / this.width;
      const index = model.lanes[lane]?.near(time, reach) ?? -1;
      return index < 0 ? null : {kind: 'span', view, index};
    }
    const chunk = chunkAt(this.residencyBox, model.chunkCount, this.scroll, y);
    if (chunk < 0) return null;
    return {
      kind: 'chunk', view, chunk, time: Math.round(inPlot ? time : own.start),
    };
  }

  inRows(y: number): boolean {
    return inside(this.residencyBox, y);
  }

  /** Crosshair, what is hovered, and the arrow from a wait's cause to it. */
  drawOverlay(
      state: PaneState, cursor: number|null, hovered: Selection|null,
      range: [number, number]|null): void {
    this.overlay.clear();
    const frame = this.frame(state, this.overlay);
    const {context, palette, axis, width} = frame;
    context.save();
    context.translate(gutter, 0);
    context.beginPath();
    context.rect(0, 0, width, this.overlay.height);
    context.clip();
    if (range) {
      const x = axis.pixel(range[0] + this.origin, width);
      const right = axis.pixel(range[1] + this.origin, width);
      context.fillStyle = palette.color('accent');
      context.globalAlpha = 0.18;
      context.fillRect(x, 0, right - x, this.overlay.height);
      context.globalAlpha = 1;
    }
    if (cursor !== null) {
      context.fillStyle = palette.color('soft');
      context.globalAlpha = 0.6;
      context.fillRect(
          Math.round(axis.pixel(cursor + this.origin, width)), 0, 1,
          this.overlay.height);
      context.globalAlpha = 1;
    }
    for (const of of [state.selection, hovered]) {
      if (!of || of.view !== this.view || of.kind !== 'span') continue;
      const {spans} = this.model.data;
      if (of === hovered) {
        const lane = spans.stream[of.index]!;
        outline(
            frame, laneBox(this.lanesBox, this.model.lanes.length, lane),
            spans.start[of.index]!, spans.end[of.index]!);
      }
      this.arrow(frame, of.index);
    }
    context.restore();
  }

  private arrow(frame: Frame, span: number): void {
    const {context, palette, axis, width, model} = frame;
    const {spans} = model.data;
    const cause = spans.cause[span]!;
    if (cause < 0) return;
    const place = (of: number) => {
      const lane = laneBox(
          this.lanesBox, model.lanes.length, Math.max(0, spans.stream[of]!));
      return {
        x: Math.min(1e5, Math.max(-1e5, axis.pixel(spans.end[of]!, width))),
        y: lane.y + lane.height / 2,
      };
    };
    const from = place(cause);
    const to = place(span);
    const bend = Math.max(18, Math.abs(to.y - from.y) * 0.4);
    const path = () => {
      context.beginPath();
      context.moveTo(from.x, from.y);
      context.bezierCurveTo(
          from.x + bend, from.y, to.x + bend, to.y, to.x + 3, to.y);
      context.stroke();
      context.beginPath();
      context.moveTo(to.x + 9, to.y - 5);
      context.lineTo(to.x + 2, to.y);
      context.lineTo(to.x + 9, to.y + 5);
      context.stroke();
    };
    context.strokeStyle = palette.color('panel');
    context.lineWidth = 4;
    path();
    context.strokeStyle = palette.color('select');
    context.lineWidth = 1.5;
    path();
    context.fillStyle = palette.color('select');
    context.beginPath();
    context.arc(from.x, from.y, 3, 0, 2 * Math.PI);
    context.fill();
  }
}

interface Entry {
  name: string;
  /** In palette.css. */
  color: string;
  thin?: boolean;
  line?: boolean;
}

interface Legend {
  title: string;
  entries: Entry[];
}

/** About how wide a text is in a legend. */
function textWidth(text: string): number {
  return text.length * kFont * 0.56;
}

/** What the colours mean of all that is in the view. */
function legendsOf(model: Model): Legend[] {
  const {data} = model;
  const {memory, categories, spans, residency, states} = data;
  const n = categories.length;
  const held = new Set<number>();
  memory.bytes.forEach((bytes, i) => bytes > 0 && held.add(i % n));
  const done = new Set<string>();
  for (let i = 0; i < spans.count; i++) {
    done.add(model.colorName(i));
  }
  const been = new Set(residency.state);
  const entry = (name: string, color: string): Entry =>
      ({name: clip(name.replaceAll('_', ' '), 30), color});
  const plan = data.predictedMemory.time.length > 0;
  return [
    {
      title: 'device memory',
      entries: [
        ...[...categories.keys()].filter((c) => held.has(c)).map(
            (c) => entry(categories[c]!, `category-${c % kCategoryColors}`)),
        ...(plan ? [{name: 'plan', color: 'predicted', line: true}] : []),
      ],
    },
    {
      title: 'streams',
      entries: workColors(model).filter((name) => done.has(name)).map(
          (name) => entry(name, name)),
    },
    {
      title: `chunks (${model.chunkCount})`,
      entries: [...states.keys()].filter((i) => been.has(i)).map((i) => ({
        ...entry(states[i]!.name, stateColorName(states[i]!.name)),
        thin: states[i]!.tier === 'host',
      })),
    },
  ];
}

function inside(box: Box, y: number): boolean {
  return y >= box.y && y < box.y + box.height;
}
