// All pictures on the one time axis: draws a frame when something changed, and
// turns what mouse, wheel and keys do into changes of the axis.
import {Axis, type Range} from './axis';
import {Surface} from './canvas';
import {h} from './dom';
import {formatTime} from './format';
import type {Selection} from './hash';
import {memoryScale, type MemoryScale} from './memory_track';
import type {Model} from './model';
import {type Palette, readPalette} from './palette';
import {Pane, type PaneState} from './pane';
import {drawOverview, drawRuler, type RulerFrame, usage} from './ruler_track';
import type {Hits} from './search';
import {gutter, setGutter} from './track';

const kOverviewHeight = 24;
const kRulerHeight = 32;
/** Less movement than this, in pixels, is a click. */
const kClick = 4;

export interface TimelineEvents {
  select: (selection: Selection|null) => void;
  hover: (selection: Selection|null, x: number, y: number) => void;
  /** The axis moved. */
  moved: () => void;
}

export class Timeline {
  readonly element: HTMLElement;
  readonly axis: Axis;
  readonly panes: Pane[];
  /** ms that the last frames took to draw, for measurements. */
  readonly frameTimes: number[] = [];
  selection: Selection|null = null;
  hits: (Hits|null)[] = [];
  private readonly ruler = new Surface('ruler');
  private readonly stack: HTMLElement;
  private readonly scale: MemoryScale;
  private palette: Palette;
  private shares: Float64Array[] = [];
  private cursor: number|null = null;
  private hovered: Selection|null = null;
  private band: Range|null = null;
  private wanted = false;
  private baseChanged = true;
  private width = 0;

  constructor(
      private readonly models: Model[],
      private readonly events: TimelineEvents) {
    const both = models.length > 1;
    // Two runs are laid over each other where their typical steps begin.
    const origins = models.map((model) => both ? model.origin : 0);
    const extent = {start: Infinity, end: -Infinity};
    models.forEach((model, i) => {
      if (!model.hasTime) return;
      extent.start = Math.min(extent.start, model.extent.start - origins[i]!);
      extent.end = Math.max(extent.end, model.extent.end - origins[i]!);
    });
    if (!(extent.end > extent.start)) {
      Object.assign(extent, {start: 0, end: 1e6});
    }
    const homes = models.filter((model) => model.hasTime)
                      .map(({home, origin}) => both ?
                          {start: home.start - origin, end: home.end - origin} :
                          home);
    this.axis = new Axis(extent, homes.length === 0 ? extent : {
      start: Math.min(...homes.map((home) => home.start)),
      end: Math.max(...homes.map((home) => home.end)),
    });
    this.scale = memoryScale(models.map((model) => model.data));
    this.palette = readPalette();
    this.panes = models.map((model, i) => new Pane(
        model, i, origins[i]!,
        both ? `${'AB'[i]}  ${model.data.source}  ${
            model.data.run?.policy ?? ''}` : '',
        () => this.invalidate()));
    this.stack =
        h('div', {class: 'stack'}, ...this.panes.map((pane) => pane.element));
    this.element = h('div', {class: 'timeline'}, this.ruler.canvas, this.stack);
    new ResizeObserver(() => this.resize()).observe(this.element);
    this.listenToRuler();
    for (const pane of this.panes) this.listenToPane(pane);
  }

  invalidate(): void {
    this.baseChanged = true;
    this.request();
  }

  themeChanged(): void {
    this.palette = readPalette();
    this.invalidate();
  }

  /** After any change of the axis. */
  moved(): void {
    this.invalidate();
    this.events.moved();
  }

  private request(): void {
    if (this.wanted) return;
    this.wanted = true;
    requestAnimationFrame(() => {
      this.wanted = false;
      this.draw();
    });
  }

  private resize(): void {
    const {clientWidth, clientHeight} = this.element;
    if (clientWidth === 0 || clientHeight === 0) return;
    setGutter(clientWidth);
    this.ruler.resize(clientWidth, kOverviewHeight + kRulerHeight);
    const room = clientHeight - kOverviewHeight - kRulerHeight;
    // Pictures of one height, whichever pane carries the headings.
    for (const pane of this.panes) pane.pageWidth = clientWidth;
    const headings = this.panes.reduce((sum, pane) => sum + pane.headings, 0);
    const each = (room - headings) / this.panes.length;
    for (const pane of this.panes) {
      pane.layout(clientWidth, Math.floor(each + pane.headings));
    }
    this.width = this.panes[0]!.width;
    this.shares = this.models.map((model, i) => {
      const by = this.panes[i]!.origin;
      const {start, end} = this.axis.extent;
      return usage(model, {start: start + by, end: end + by}, this.width);
    });
    this.baseChanged = true;
    // It is drawn at once: between a new size and a frame a canvas is blank.
    this.draw();
  }

  private draw(): void {
    if (this.width === 0) return;
    const began = performance.now();
    const state = (pane: Pane): PaneState => ({
      palette: this.palette, axis: this.axis, memoryScale: this.scale,
      hits: this.hits[pane.view] ?? null, selection: this.selection,
    });
    if (this.baseChanged) {
      this.baseChanged = false;
      this.ruler.clear();
      const frame: RulerFrame = {
        context: this.ruler.context, palette: this.palette,
        models: this.models, origins: this.panes.map((pane) => pane.origin),
        axis: this.axis, width: this.width,
      };
      drawOverview(frame, {y: 2, height: kOverviewHeight - 4}, this.shares);
      drawRuler(frame, {y: kOverviewHeight, height: kRulerHeight});
      for (const pane of this.panes) pane.draw(state(pane));
    }
    const band: [number, number]|null =
        this.band ? [this.band.start, this.band.end] : null;
    for (const pane of this.panes) {
      pane.drawOverlay(state(pane), this.cursor, this.hovered, band);
    }
    this.frameTimes.push(performance.now() - began);
    if (this.frameTimes.length > 1000) this.frameTimes.shift();
  }

  private timeAt(x: number): number {
    return this.axis.time(x - gutter, this.width);
  }

  private listenToPane(pane: Pane): void {
    const canvas = pane.overlay.canvas;
    let pressed: {x: number, y: number, time: number}|null = null;
    let dragging = false;
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      pressed = {
        x: event.offsetX, y: event.offsetY, time: this.timeAt(event.offsetX),
      };
      dragging = false;
    });
    canvas.addEventListener('pointermove', (event) => {
      const {offsetX: x, offsetY: y} = event;
      if (pressed && (dragging || Math.abs(x - pressed.x) >= kClick)) {
        dragging = true;
        if (event.shiftKey || this.band) {
          this.setBand(pressed.time, this.timeAt(x));
          this.request();
        } else {
          canvas.style.cursor = 'grabbing';
          const by = pressed.time - this.timeAt(x);
          this.axis.set(this.axis.start + by, this.axis.end + by);
          this.moved();
        }
        return;
      }
      this.cursor = x >= gutter ? this.timeAt(x) : null;
      this.hovered = pane.hit(x, y, this.axis);
      canvas.style.cursor = this.hovered ? 'pointer' : 'default';
      this.events.hover(this.hovered, event.clientX, event.clientY);
      this.request();
    });
    canvas.addEventListener('pointerup', (event) => {
      canvas.style.cursor = 'default';
      if (this.band) this.zoomToBand();
      else if (pressed && !dragging) {
        this.events.select(pane.hit(event.offsetX, event.offsetY, this.axis));
      }
      pressed = null;
    });
    canvas.addEventListener('pointercancel', () => {
      pressed = null;
      this.band = null;
      this.request();
    });
    canvas.addEventListener('pointerleave', () => {
      this.cursor = null;
      this.hovered = null;
      this.events.hover(null, 0, 0);
      this.request();
    });
    canvas.addEventListener('dblclick', (event) => {
      const hit = pane.hit(event.offsetX, event.offsetY, this.axis);
      if (hit?.kind === 'span') {
        const {spans} = pane.model.data;
        this.axis.focus(
            spans.start[hit.index]! - pane.origin,
            spans.end[hit.index]! - pane.origin);
      } else {
        this.axis.zoom(0.4, this.timeAt(event.offsetX));
      }
      this.moved();
    });
    canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      const rows = event.altKey || event.offsetX < gutter;
      if (rows && pane.inRows(event.offsetY)) pane.scrollRows(event.deltaY);
      else this.wheel(event);
    }, {passive: false});
  }

  private wheel(event: WheelEvent): void {
    // Lines and pages, as some mice count, in pixels.
    const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1;
    const x = event.deltaX * unit;
    const y = event.deltaY * unit;
    if (event.shiftKey || Math.abs(x) > Math.abs(y)) {
      this.axis.pan((Math.abs(x) > Math.abs(y) ? x : y) / this.width);
    } else {
      // Two fingers on a touch pad count as ctrl, in small numbers.
      const turned = event.ctrlKey ? 6 * y : y;
      const limited = Math.max(-240, Math.min(240, turned));
      this.axis.zoom(Math.exp(limited * 0.002), this.timeAt(event.offsetX));
    }
    this.moved();
  }

  private setBand(a: number, b: number): void {
    this.band = {start: Math.min(a, b), end: Math.max(a, b)};
    this.stack.dataset['band'] = formatTime(this.band.end - this.band.start);
  }

  private zoomToBand(): void {
    if (this.band && this.band.end > this.band.start) {
      this.axis.set(this.band.start, this.band.end);
      this.moved();
    }
    this.band = null;
    delete this.stack.dataset['band'];
    this.request();
  }

  /** The overview is dragged, the ruler below it selects a range. */
  private listenToRuler(): void {
    const {canvas} = this.ruler;
    let dragging: 'overview'|'ruler'|null = null;
    let from = 0;
    const center = (event: PointerEvent) => {
      const {start, end} = this.axis.extent;
      const time =
          start + (event.offsetX - gutter) / this.width * (end - start);
      this.axis.set(time - this.axis.span / 2, time + this.axis.span / 2);
      this.moved();
    };
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      dragging = event.offsetY < kOverviewHeight ? 'overview' : 'ruler';
      from = this.timeAt(event.offsetX);
      if (dragging === 'overview') center(event);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (dragging === 'overview') center(event);
      else if (dragging === 'ruler') {
        this.setBand(from, this.timeAt(event.offsetX));
        this.request();
      }
    });
    canvas.addEventListener('pointerup', (event) => {
      if (dragging === 'ruler') {
        const wide = Math.abs(this.axis.pixel(from, this.width) -
                              (event.offsetX - gutter)) >= kClick;
        if (!wide) this.band = null;
        this.zoomToBand();
      }
      dragging = null;
    });
    canvas.addEventListener('dblclick', () => {
      this.axis.fit();
      this.moved();
    });
    canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      this.wheel(event);
    }, {passive: false});
  }
}
