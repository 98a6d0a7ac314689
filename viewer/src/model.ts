// A view with what the pictures ask of it: its rows, its extent, and who is
// who.
import type {Range} from './axis';
import type {Op, Plan, Program, ViewData} from './data';
import {group, lowerBound, type Row} from './runs';

/** More rows than this are not drawn: nobody could tell them apart. */
const kMaxChunks = 200_000;

/** Where a chunk is needed next. */
export interface NextUse {
  moment: number;
  op: Op;
  /** The operators that start from now on, with it. */
  ahead: number;
  /** Its span, if it is in the trace; -1 otherwise. */
  span: number;
}

export class Model {
  readonly extent: Range;
  /** What is shown at first: a typical step, or all where there is none. */
  readonly home: Range;
  /** Where comparisons put this view's zero. */
  readonly origin: number;
  readonly lanes: Row[];
  readonly chunkRows: Row[];
  readonly chunkCount: number;
  private spansByChunk: Map<number, number[]>|null = null;
  private spansByOp: Map<string, number[]>|null = null;

  constructor(readonly data: ViewData) {
    const {spans, residency} = data;
    this.extent = extentOf(data);
    this.lanes =
        group(spans.stream, data.streams.length, spans.start, spans.end);
    let chunks = 0;
    for (const program of data.programs) {
      chunks = Math.max(chunks, program.chunks.length);
    }
    if (chunks === 0) {
      for (const chunk of residency.chunk) chunks = Math.max(chunks, chunk + 1);
    }
    this.chunkCount = Math.min(chunks, kMaxChunks);
    this.chunkRows =
        group(residency.chunk, this.chunkCount, residency.start, residency.end);
    const typical = data.steps[data.summary?.medianStep ?? -1];
    this.home = typical && typical.end > typical.start ?
        {start: typical.start, end: typical.end} :
        this.extent;
    this.origin = this.home.start;
  }

  /** There is something to draw on a time axis. */
  get hasTime(): boolean {
    return this.data.spans.count > 0 || this.data.memory.time.length > 0 ||
        this.data.residency.count > 0;
  }

  plan(step: number): Plan|undefined {
    const index = this.data.steps[step]?.plan ?? -1;
    return this.data.plans[index];
  }

  program(step: number): Program|undefined {
    const plan = this.plan(step);
    // A view without steps, of a refused run, has at most one.
    return plan ? this.data.programs[plan.program] : this.data.programs[0];
  }

  op(step: number, moment: number): Op|undefined {
    return this.program(step)?.ops[moment];
  }

  isWait(span: number): boolean {
    return this.data.spans.kind[span]! < 0;
  }

  /** The program did something itself, which is no work of the stream's. */
  isPause(span: number): boolean {
    return this.colorName(span) === 'pause';
  }

  kindName(span: number): string {
    const kind = this.data.spans.kind[span]!;
    return kind < 0 ? 'wait' : this.data.kinds[kind]?.name ?? 'other';
  }

  /** The name in palette.css of the colour of a span. */
  colorName(span: number): string {
    const kind = this.kindName(span);
    if (kind === 'wait') return kind;
    if (kind !== 'operator') {
      return this.data.kinds[this.data.spans.kind[span]!]?.color ?? 'other';
    }
    const phase = this.phase(span);
    return phase === 'backward' || phase === 'optimizer' ? phase : 'forward';
  }

  /** Whether the work moves the chunk or its optimizer states. */
  movesChunk(span: number): boolean {
    return this.kindName(span) === 'move' ||
        this.data.kinds[this.data.spans.kind[span]!]?.copies === true;
  }

  /** The phase of an operator; '' of other work. */
  phase(span: number): string {
    const {spans} = this.data;
    return this.op(spans.step[span]!, spans.moment[span]!)?.phase ?? '';
  }

  label(span: number): string {
    const {spans, strings} = this.data;
    const label = strings[spans.label[span]!];
    if (label) return label;
    const op = this.op(spans.step[span]!, spans.moment[span]!);
    const chunk = spans.chunk[span]!;
    const kind = this.kindName(span);
    if (kind === 'operator' && op) return op.name;
    return chunk >= 0 ? `${kind} chunk ${chunk}` : kind;
  }

  note(span: number): string {
    return this.data.strings[this.data.spans.note[span]!] ?? '';
  }

  laneName(stream: number): string {
    const lane = this.data.streams[stream];
    return lane ? lane.label || lane.name : '';
  }

  /** "step 12", "evaluation". */
  stepName(step: number): string {
    const of = this.data.steps[step];
    if (!of) return 'no step';
    return of.step > 0 ? `step ${of.step}` : 'evaluation';
  }

  /** What steps a range shows: "step 4", "steps 4 to 6 of 8", "all". */
  rangeName({start, end}: Range): string {
    if (start <= this.extent.start && end >= this.extent.end) {
      return 'whole trace';
    }
    const least = (end - start) / 1e3;
    const {steps} = this.data;
    const shown = [...steps.keys()].filter(
        (i) => steps[i]!.start < end - least && steps[i]!.end > start + least);
    if (shown.length === 0) return 'between steps';
    const first = shown[0]!;
    const last = shown.at(-1)!;
    const whole = this.home.start === start && this.home.end === end;
    const name = this.stepName(first);
    if (first === last) {
      const part = steps[first]!;
      return whole && this.data.summary!.steps > 1 ? `${name} (typical)` :
          start > part.start + least || end < part.end - least ?
                                                     `part of ${name}` :
                                                     name;
    }
    return `${name} to ${this.stepName(last)}`;
  }

  stepAt(time: number): number {
    return this.data.steps.findIndex((s) => s.start <= time && time < s.end);
  }

  spansOfChunk(chunk: number): number[] {
    if (!this.spansByChunk) {
      this.spansByChunk = new Map();
      const {spans} = this.data;
      for (let i = 0; i < spans.count; i++) {
        if (spans.chunk[i]! >= 0) push(this.spansByChunk, spans.chunk[i]!, i);
      }
    }
    return this.spansByChunk.get(chunk) ?? [];
  }

  /** All runs of an operator, whatever stream did it. */
  spansOfOp(program: number, moment: number): number[] {
    if (!this.spansByOp) {
      this.spansByOp = new Map();
      const {spans, steps, plans} = this.data;
      for (let i = 0; i < spans.count; i++) {
        const kind = this.kindName(i);
        if (kind !== 'operator' && kind !== 'reduce' && kind !== 'update') {
          continue;
        }
        const plan = plans[steps[spans.step[i]!]?.plan ?? -1];
        push(this.spansByOp, `${plan?.program ?? -1}/${spans.moment[i]}`, i);
      }
    }
    return this.spansByOp.get(`${program}/${moment}`) ?? [];
  }

  /** The run of operator `moment` nearest to span `near`, from it onwards. */
  opSpan(step: number, moment: number, near: number): number {
    const {spans} = this.data;
    const all = this.spansOfOp(this.plan(step)?.program ?? -1, moment);
    const from = spans.start[near]!;
    return all.find((i) => spans.end[i]! >= from) ?? all.at(-1) ?? -1;
  }

  /** The latest operator to start by `time`, or the first of all; -1: none. */
  operatorAt(time: number): number {
    const {spans} = this.data;
    let i = lowerBound(spans.start, spans.count, time) - 1;
    for (let left = 4096; i >= 0 && left > 0; i--, left--) {
      if (this.kindName(i) === 'operator') return i;
    }
    return -1;
  }

  /** The interval of a chunk at a time; -1: not on the device, and idle. */
  residencyAt(chunk: number, time: number): number {
    return this.chunkRows[chunk]?.at(time) ?? -1;
  }

  /** The first operator after `time` that uses the chunk. */
  nextUse(chunk: number, time: number): NextUse|null {
    const current = this.operatorAt(time);
    const {spans, steps} = this.data;
    const step = current >= 0 ? spans.step[current]! : this.stepAt(time);
    const program = this.program(step);
    const uses = program?.chunks[chunk]?.uses.filter(
        (moment) => program.ops[moment]?.kind === 'compute');
    if (!program || !uses || uses.length === 0) return null;
    const now = current >= 0 ? spans.moment[current]! : -1;
    const inStep = uses.find((moment) => moment > now);
    const moment = inStep ?? uses[0]!;
    // If the use is in the next step, all that is left of this one comes before
    // it.
    const left = inStep === undefined ?
        program.ops.slice(now + 1).concat(program.ops.slice(0, moment + 1)) :
        program.ops.slice(now + 1, moment + 1);
    const ahead = left.filter((op) => op.kind === 'compute').length;
    const all = this.spansOfOp(
        this.plan(steps[step] ? step : 0)?.program ?? -1, moment);
    const span = all.find((i) => spans.start[i]! > time) ?? -1;
    return {moment, op: program.ops[moment]!, ahead, span};
  }

  parameters(chunk: number, step = 0): string[] {
    const of = this.program(step) ?? this.data.programs[0];
    return of?.chunks[chunk]?.parameters ?? [];
  }
}

function push<K>(map: Map<K, number[]>, key: K, value: number): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}

function extentOf(data: ViewData): Range {
  let start = Infinity;
  let end = -Infinity;
  const include = (from: number, to: number) => {
    if (Number.isFinite(from)) start = Math.min(start, from);
    if (Number.isFinite(to)) end = Math.max(end, to);
  };
  for (const step of data.steps) include(step.start, step.end);
  const {spans, residency, memory} = data;
  for (let i = 0; i < spans.count; i++) include(spans.start[i]!, spans.end[i]!);
  // These count only where nothing else is known: what memory was like before
  // the first step would only squeeze the steps.
  if (end <= start) {
    for (let i = 0; i < residency.count; i++) {
      include(residency.start[i]!, residency.end[i]!);
    }
    for (const time of memory.time) include(time, time);
  }
  if (end <= start) return {start: 0, end: 1e6};
  return {start, end};
}
