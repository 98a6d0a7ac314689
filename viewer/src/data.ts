// The view: what the analysis of a trace (insight) hands to this page,
// checked. A view comes from a file that anybody may have written, so nothing
// about it is believed: what has a wrong type is an error with its path,
// numbers that name something are kept only where that something exists.

export class DataError extends Error {}

/** A kind of work. Pauses, in which the program does something itself while no
    step is queued, have the colour of that name. */
export interface WorkKind {
  name: string;
  /** In palette.css; operators have that of their phase. */
  color: string;
  /** Of a chunk, to the device or to the host. */
  copies: boolean;
}

export interface Run {
  title: string;
  device: string;
  policy: string;
  deviceBudgetBytes: number|null;
  hostBudgetBytes: number|null;
  steps: number;
  tokensPerStep: number;
  threads: number;
  rank: number;
  /** 1: there is no network. */
  worldSize: number;
  host: string;
  /** By how much times may be off rank 0's. */
  clockErrorNs: number;
}

export interface Chunk {
  payloadBytes: number;
  optimizerBytes: number;
  parameters: string[];
  /** Moments, ascending. */
  uses: number[];
  /** Of the model, whose activations it holds; -1: it holds parameters. */
  block: number;
}

export interface Op {
  name: string;
  kind: string;
  phase: string;
  shapes: string;
  nonModelPeakBytes: number;
  workspaceBytes: number;
  /** Floating-point operations; 0: none, or not known. */
  flops: number;
  /** Of the activations there: what kept blocks have on the device. */
  keptBytes: number;
  chunks: number[];
  writes: number[];
}

export interface Program {
  training: boolean;
  chunks: Chunk[];
  ops: Op[];
}

export interface Prediction {
  stepNs: number;
  stallNs: number;
  h2dBytes: number;
  d2hBytes: number;
  devicePeakBytes: number;
  hostBytes: number;
  leastH2dBytes: number;
  /** Of blocks within the device's memory, a step; null: not known. */
  moves: number|null;
  movedBytes: number|null;
}

export interface Plan {
  /** Index of a program, or -1. */
  program: number;
  policy: string;
  warmup: boolean;
  deviceSide: number[];
  /** null: not known. */
  plannedAddresses: boolean|null;
  /** By moment: what may go to the host and is on the device then. */
  activationBytes: number[];
  predicted: Prediction;
}

export interface Step {
  /** From 1; 0: evaluation. */
  step: number;
  plan: number;
  start: number;
  end: number;
  whole: boolean;
  computeNs: number;
  copyNs: number;
  optimizerNs: number;
  networkNs: number;
  lateNs: number;
  idleNs: number;
  h2dBytes: number;
  d2hBytes: number;
  sentBytes: number;
  receivedBytes: number;
  devicePeakBytes: number;
  /** Of blocks within the device's memory, and their time. */
  moves: number;
  moveNs: number;
  loss: number|null;
}

/** Columns of equal length, by ascending start. -1: none. */
export interface Spans {
  count: number;
  stream: Int32Array;
  /** Index of kinds; -1: a wait. */
  kind: Int32Array;
  step: Int32Array;
  moment: Int32Array;
  chunk: Int32Array;
  start: Float64Array;
  end: Float64Array;
  label: Int32Array;
  bytes: Float64Array;
  because: Int32Array;
  cause: Int32Array;
  note: Int32Array;
  /** Of a wait for a rank: which. */
  lateRank: Int32Array;
}

/** A curve of steps: each point holds until the next. */
export interface Curve {
  time: Float64Array;
  /** Sums over the categories. */
  total: Float64Array;
}

export interface Memory extends Curve {
  op: Int32Array;
  step: Int32Array;
  /** Point i's category c: bytes[i * categories + c]. */
  bytes: Float64Array;
}

export interface Residency {
  count: number;
  chunk: Int32Array;
  start: Float64Array;
  end: Float64Array;
  state: Int32Array;
}

export interface Table {
  rows: number;
  columns: Record<string, ArrayLike<number>|string[]>;
}

export interface Summary {
  /** Index of the step whose length is the median; -1: none. */
  medianStep: number;
  /** Of a step's operators; 0: not known. */
  flops: number;
  steps: number;
  stepNs: number;
  computeNs: number;
  copyNs: number;
  optimizerNs: number;
  networkNs: number;
  lateNs: number;
  idleNs: number;
  h2dBytes: number;
  d2hBytes: number;
  sentBytes: number;
  receivedBytes: number;
  leastH2dBytes: number;
  predictedStepNs: number;
  predictedPeakBytes: number;
  devicePeakBytes: number;
  hostPeakBytes: number;
  deviceBudgetBytes: number|null;
  plannedAddresses: boolean|null;
  predictedMoves: number|null;
  predictedMovedBytes: number|null;
  moves: number;
  moveNs: number;
  keptBlocks: number;
  keptBytes: number;
  hostBlocks: number;
  hostBytes: number;
  remadeBlocks: number;
  sparedBytes: number;
  tokensPerSecond: number;
  advice: string[];
}

export interface Refusal {
  message: string;
  tier: string;
  op: string;
  peakBytes: number;
  residentBytes: number;
  smallestDeviceBudgetBytes: number|null;
  smallestHostBudgetBytes: number|null;
}

export interface Peak {
  time: number;
  bytes: number;
  step: number;
  moment: number;
  op: string;
  byCategory: number[];
}

export interface State {
  name: string;
  tier: string;
}

/** The budget of the device's memory became another one. */
export interface BudgetChange {
  time: number;
  /** Training steps that were over. */
  step: number;
  /** null: unlimited. */
  from: number|null;
  to: number|null;
  /** `castor resize`, `follow` or `program`. */
  askedBy: string;
}

export interface ViewData {
  source: string;
  status: string;
  message: string;
  truncated: boolean;
  run: Run|null;
  categories: string[];
  streams: {name: string, label: string}[];
  kinds: WorkKind[];
  programs: Program[];
  plans: Plan[];
  steps: Step[];
  spans: Spans;
  strings: string[];
  memory: Memory;
  hostMemory: Memory;
  predictedMemory: Curve;
  /** By time. */
  budgets: BudgetChange[];
  peak: Peak|null;
  residency: Residency;
  states: State[];
  tables: {
    modules: Table, operators: Table, chunks: Table, waits: Table, steps: Table,
    blocks: Table,
  };
  summary: Summary|null;
  refusal: Refusal|null;
}

export interface ComparisonRow {
  name: string;
  unit: string;
  a: number;
  b: number;
}

export interface Comparison {
  rows: ComparisonRow[];
  notes: string[];
}

/** One of the ranks whose traces the data hold. */
export interface RankName {
  rank: number;
  host: string;
}

export interface Loaded {
  views: ViewData[];
  /** Which may be shown in place of the one in `views`; none: no choice. */
  ranks: RankName[];
  comparison: Comparison|null;
}
