// One figure over the steps of a run, drawn by uPlot.
import uPlot from 'uplot';

import {h} from './dom';
import {formatCount} from './format';
import type {Palette} from './palette';

export interface Curve {
  label: string;
  /** A colour of palette.css. */
  color: string;
  /** A line that is not measured: a bound. */
  dashed?: boolean;
  /** Single values, not a line. */
  dots?: boolean;
}

export interface ChartOptions {
  title: string;
  format: (value: number) => string;
  curves: Curve[];
  /** The scale begins at 0, whatever the values. */
  fromZero?: boolean;
  /** Ticks at powers of two and their multiples: bytes. */
  binary?: boolean;
}

/** What happened after a step. */
export interface Mark {
  step: number;
  text: string;
}

const kHeight = 180;

// Steps between ticks: 1, 2, 5, 10, ... and 1, 2, 4, 8, ...
const kWhole = [0, 1, 2, 3, 4, 5, 6, 7, 8].flatMap(
    (n) => [1, 2, 5].map((digit) => digit * 10 ** n));
const kBinary = Array.from({length: 53}, (_, n) => 2 ** n);

export class LiveChart {
  readonly element: HTMLElement;
  private readonly place: HTMLElement;
  private readonly plot: uPlot;
  private marks: Mark[] = [];

  constructor(readonly options: ChartOptions, palette: () => Palette) {
    this.place = h('div', {class: 'plot', role: 'img'});
    this.element = h(
        'section', {class: 'chart'}, h('h2', {}, options.title), this.place);
    const color = (name: string) => () => palette().color(name);
    const axis: uPlot.Axis = {
      stroke: color('soft'),
      grid: {stroke: color('faint'), width: 1},
      ticks: {stroke: color('line'), width: 1},
    };
    const value = (v: number|null) => v === null ? '–' : options.format(v);
    this.plot = new uPlot(
        {
          width: 400,
          height: kHeight,
          cursor: {sync: {key: 'run'}, drag: {x: true, y: false}},
          scales: {
            x: {time: false},
            y: {range: (_, least, most) => this.range(least, most)},
          },
          axes: [
            {...axis, incrs: kWhole, values: (_, at) => at.map(formatCount)},
            {
              ...axis,
              size: 72,
              values: (_, at) => at.map(options.format),
              ...(options.binary ? {incrs: kBinary} : {}),
            },
          ],
          legend: {
            markers: {
              width: 2,
              stroke: (_, i) => `var(--${options.curves[i - 1]?.color})`,
            },
          },
          hooks: {draw: [(plot) => this.drawMarks(plot, color('budget')())]},
          series: [
            {label: 'step'},
            ...options.curves.map((curve): uPlot.Series => ({
              label: curve.label,
              stroke: color(curve.color),
              width: curve.dashed ? 1 : 1.5,
              ...(curve.dashed ? {dash: [6, 4]} : {}),
              ...(curve.dots ? {
                paths: () => null,
                points: {show: true, size: 5, fill: color(curve.color)},
              } : {}),
              // A dashed curve is a budget, which a run has or has not.
              spanGaps: !curve.dashed,
              value: (_, v) => value(v),
            })),
          ],
        },
        [[], ...options.curves.map(() => [])], this.place);
  }

  /** `columns`: a list for each curve, as long as `steps`. */
  show(steps: number[], columns: (number|null)[][], marks: Mark[] = []): void {
    this.marks = marks;
    this.plot.setData([steps, ...columns]);
    const last = (column: (number|null)[]) => {
      const value = column.filter((v) => v !== null).at(-1);
      return value === undefined ? 'none' : this.options.format(value as number);
    };
    this.place.setAttribute(
        'aria-label',
        steps.length === 0 ? `${this.options.title}: nothing yet` :
                             `${this.options.title}, step ${steps[0]} to ${
                                 steps.at(-1)}; last: ` +
                this.options.curves.map(
                    (curve, i) => `${curve.label} ${last(columns[i]!)}`)
                    .join(', ') +
                marks.map(({step, text}) => `; after step ${step}: ${text}`)
                    .join(''));
  }

  /** To the room there is, and in the colours of now. */
  fit(): void {
    const width = this.place.clientWidth;
    if (width > 0 && width !== this.plot.width) {
      this.plot.setSize({width, height: kHeight});
    } else {
      this.plot.redraw();
    }
  }

  /** A line between a mark's step and the next. */
  private drawMarks(plot: uPlot, color: string): void {
    const {ctx, bbox} = plot;
    ctx.fillStyle = color;
    for (const {step} of this.marks) {
      const x = Math.round(plot.valToPos(step + 0.5, 'x', true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.fillRect(x, bbox.top, Math.max(1, devicePixelRatio), bbox.height);
    }
  }

  private range(least: number|null, most: number|null): [number, number] {
    if (least === null || most === null) return [0, 1];
    const low = this.options.fromZero ? Math.min(0, least) : least;
    // A curve that does not move lies in the middle of some room.
    const room = most > low ? (most - low) * 0.05 : Math.abs(most) * 0.1 || 1;
    return [this.options.fromZero && low === 0 ? 0 : low - room, most + room];
  }
}
