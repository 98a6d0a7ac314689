// From JSON to a checked view (data.ts). The format is written by
// insight/view_json.h.
import {
  type Comparison, type Curve, DataError, type Loaded, type Memory, type Op,
  type Plan, type Program, type Residency, type Spans, type Step, type Table,
  type ViewData,
} from './data';
import {Reader} from './reader';

export const kViewVersion = 1;

/** No index in a view is larger. */
const kAnyIndex = 2 ** 31 - 1;

/** Of several ranks' views the one of `rank`, or the first. */
export function parse(text: string, rank = 0): Loaded {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (error) {
    throw new DataError(`the data is not JSON: ${(error as Error).message}`);
  }
  return parseLoaded(json, rank);
}

export function parseLoaded(json: unknown, rank = 0): Loaded {
  const root = new Reader(json, '');
  if (root.at('ranks').flag()) return parseRanks(root.at('views'), rank);
  const views = root.at('views').each(parseView);
  if (views.length === 0 || views.length > 2) {
    throw new DataError(`the data holds ${views.length} views, not 1 or 2`);
  }
  const comparison = root.at('comparison');
  return {views, ranks: [], comparison: comparison.absent ? null :
                                                 parseComparison(comparison)};
}

/** Others than the one that is shown are not looked at. */
function parseRanks(from: Reader, rank: number): Loaded {
  const ranks = from.each((view) => {
    const run = view.at('run');
    return run.absent ?
        {rank: 0, host: ''} :
        {rank: run.at('rank').number(), host: run.at('host').text()};
  });
  const chosen = Math.max(0, ranks.findIndex((known) => known.rank === rank));
  const views = from.each(
      (view, i) => i === chosen ? parseView(view) : null);
  const view = views[chosen];
  if (!view) throw new DataError('the data holds no view of any rank');
  return {views: [view], ranks, comparison: null};
}

function parseComparison(from: Reader): Comparison {
  return {
    rows: from.at('rows').each((row) => ({
      name: row.at('name').text(), unit: row.at('unit').text(),
      a: row.at('a').number(NaN), b: row.at('b').number(NaN),
    })),
    notes: from.at('notes').texts(),
  };
}

function parseView(from: Reader): ViewData {
  const version = from.at('version').number();
  if (version !== kViewVersion) {
    throw new DataError(`the view has version ${version}; this page reads ${
        kViewVersion}`);
  }
  const categories = from.at('categories').texts();
  const streams = from.at('streams').each(
      (s) => ({name: s.at('name').text(), label: s.at('label').text()}));
  const kinds = from.at('kinds').each((k) => ({
    name: k.at('name').text(), color: k.at('color').text(),
    copies: k.at('copies').flag(),
  }));
  const strings = from.at('strings').texts();
  const states = from.at('states').each(
      (s) => ({name: s.at('name').text(), tier: s.at('tier').text()}));
  const programs = from.at('programs').each(parseProgram);
  const plans = from.at('plans').each((p) => parsePlan(p, programs.length));
  const steps = from.at('steps').each((s) => parseStep(s, plans.length));
  const tables = from.at('tables');
  const table = (name: string) =>
      tables.absent ? emptyTable() : parseTable(tables.at(name));
  return {
    source: from.at('source').text(),
    status: from.at('status').text(),
    message: from.at('message').text(),
    truncated: from.at('truncated').flag(),
    run: parseRun(from.at('run')),
    categories, streams, kinds, programs, plans, steps, strings, states,
    spans: parseSpans(from.at('spans'), {
      streams: streams.length, kinds: kinds.length, steps: steps.length,
      strings: strings.length,
    }),
    memory: parseMemory(from.at('memory'), categories.length),
    hostMemory: parseMemory(from.at('host_memory'), categories.length),
    predictedMemory: parseCurve(from.at('predicted_memory')),
    budgets: parseBudgets(from.at('budgets')),
    peak: parsePeak(from.at('peak')),
    residency: parseResidency(from.at('residency'), states.length),
    tables: {
      modules: table('modules'), operators: table('operators'),
      chunks: table('chunks'), waits: table('waits'), steps: stepTable(steps), blocks: table('blocks'),
    },
    summary: parseSummary(from.at('summary')),
    refusal: parseRefusal(from.at('refusal')),
  };
}

function parseRun(from: Reader): ViewData['run'] {
  if (from.absent) return null;
  return {
    title: from.at('title').text(), device: from.at('device').text(),
    policy: from.at('policy').text(),
    deviceBudgetBytes: from.at('device_budget_bytes').numberOrNull(),
    hostBudgetBytes: from.at('host_budget_bytes').numberOrNull(),
    steps: from.at('steps').number(),
    tokensPerStep: from.at('tokens_per_step').number(),
    threads: from.at('threads').number(),
    rank: from.at('rank').number(),
    worldSize: from.at('world_size').number(1), host: from.at('host').text(),
    clockErrorNs: from.at('clock_error_ns').number(),
  };
}

function parseProgram(from: Reader): Program {
  const ops = from.at('ops');
  const names = ops.absent ? [] : ops.at('name').texts();
  const column = (key: string) => ops.column(key, names.length);
  const texts = (key: string) => ops.at(key).texts();
  const lists = (key: string) => ops.at(key).each((l) => l.numbers());
  const result: Op[] = [];
  if (names.length > 0) {
    const kind = texts('kind');
    const phase = texts('phase');
    const shapes = texts('shapes');
    const peak = column('non_model_peak_bytes');
    const workspace = column('workspace_bytes');
    const kept = column('kept_bytes');
    const flops = column('flops');
    const chunks = lists('chunks');
    const writes = lists('writes');
    names.forEach((name, i) => result.push({
      name, kind: kind[i] ?? '', phase: phase[i] ?? '',
      shapes: shapes[i] ?? '', nonModelPeakBytes: peak[i]!,
      workspaceBytes: workspace[i]!, flops: Math.max(0, flops[i]!),
      keptBytes: Math.max(0, kept[i]!), chunks: chunks[i] ?? [],
      writes: writes[i] ?? [],
    }));
  }
  return {
    training: from.at('training').flag(),
    chunks: from.at('chunks').each((c) => ({
      payloadBytes: c.at('payload_bytes').number(),
      optimizerBytes: c.at('optimizer_bytes').number(),
      parameters: c.at('parameters').texts(), uses: c.at('uses').numbers(),
      block: c.at('block').number(-1),
    })),
    ops: result,
  };
}

function parsePlan(from: Reader, programs: number): Plan {
  const program = from.at('program').number(-1);
  const p = from.at('predicted');
  const number = (key: string) => p.absent ? 0 : p.at(key).number();
  return {
    program: program >= 0 && program < programs ? program : -1,
    policy: from.at('policy').text(), warmup: from.at('warmup').flag(),
    deviceSide: from.at('device_side').numbers(),
    plannedAddresses: from.at('planned_addresses').flagOrNull(),
    activationBytes: from.at('activation_bytes').numbers(),
    predicted: {
      stepNs: number('step_ns'), stallNs: number('stall_ns'),
      h2dBytes: number('h2d_bytes'), d2hBytes: number('d2h_bytes'),
      devicePeakBytes: number('device_peak_bytes'),
      hostBytes: number('host_bytes'),
      leastH2dBytes: number('least_h2d_bytes'),
      moves: p.absent ? null : p.at('moves').numberOrNull(),
      movedBytes: p.absent ? null : p.at('moved_bytes').numberOrNull(),
    },
  };
}

function parseStep(from: Reader, plans: number): Step {
  const plan = from.at('plan').number(-1);
  const number = (key: string) => from.at(key).number();
  const start = number('start_ns');
  return {
    step: number('step'), plan: plan >= 0 && plan < plans ? plan : -1, start,
    end: Math.max(start, number('end_ns')), whole: from.at('whole').flag(),
    computeNs: number('compute_ns'), copyNs: number('copy_ns'),
    optimizerNs: number('optimizer_ns'), networkNs: number('network_ns'),
    lateNs: number('late_ns'), idleNs: number('idle_ns'),
    h2dBytes: number('h2d_bytes'), d2hBytes: number('d2h_bytes'),
    sentBytes: number('sent_bytes'), receivedBytes: number('received_bytes'),
    devicePeakBytes: number('device_peak_bytes'),
    moves: number('moves'), moveNs: number('move_ns'),
    loss: from.at('loss').numberOrNull(),
  };
}

/** Rows by ascending start, whatever order they came in. */
function ascending(start: Float64Array): Int32Array|null {
  let sorted = true;
  for (let i = 1; i < start.length && sorted; i++) {
    sorted = start[i - 1]! <= start[i]!;
  }
  if (sorted) return null;
  return Int32Array.from(start.keys()).sort(
      (a, b) => start[a]! - start[b]! || a - b);
}

function parseSpans(
    from: Reader,
    limit: {streams: number, kinds: number, steps: number, strings: number}):
    Spans {
  const count = from.rows('start');
  if (count === 0) from = new Reader({}, 'spans');
  const column = (key: string) => from.column(key, count);
  const start = column('start');
  if (ascending(start)) {
    // Waits name spans by their place, so they cannot be sorted here.
    throw new DataError('spans.start is not ascending');
  }
  const end = column('end');
  for (let i = 0; i < count; i++) end[i] = Math.max(start[i]!, end[i]!);
  return {
    count, start, end, bytes: column('bytes'),
    stream: from.indices('stream', count, limit.streams),
    kind: from.indices('kind', count, limit.kinds),
    step: from.indices('step', count, limit.steps),
    moment: from.indices('moment', count, kAnyIndex),
    chunk: from.indices('chunk', count, kAnyIndex),
    label: from.indices('label', count, limit.strings),
    because: from.indices('because', count, kAnyIndex),
    cause: from.indices('cause', count, count),
    note: from.indices('note', count, limit.strings),
    lateRank: from.indices('late_rank', count, kAnyIndex),
  };
}

function parseCurve(from: Reader): Curve {
  const count = from.rows('time');
  if (count === 0) return {time: new Float64Array(), total: new Float64Array()};
  const time = from.column('time', count);
  if (ascending(time)) throw new DataError(`${from.path}.time goes back`);
  return {time, total: from.column('bytes', count)};
}

function parseMemory(from: Reader, categories: number): Memory {
  const count = from.rows('time');
  const bytes = new Float64Array(count * categories);
  const total = new Float64Array(count);
  if (count === 0) from = new Reader({}, 'memory');
  const time = from.column('time', count);
  if (ascending(time)) throw new DataError(`${from.path}.time goes back`);
  if (count > 0) {
    // A list of points for each category.
    const lists = from.at('bytes').each((list) => list.numbers());
    lists.slice(0, categories).forEach((list, c) => {
      if (list.length !== count) {
        throw new DataError(`${from.path}.bytes[${c}] has ${
            list.length} entries, not ${count}`);
      }
      for (let i = 0; i < count; i++) {
        const value = Math.max(0, list[i]!);
        bytes[i * categories + c] = value;
        total[i]! += value;
      }
    });
  }
  return {
    time, total, bytes, op: from.indices('op', count, kAnyIndex),
    step: from.indices('step', count, kAnyIndex),
  };
}

function parseBudgets(from: Reader): ViewData['budgets'] {
  const count = from.rows('time');
  if (count === 0) return [];
  const time = from.column('time', count);
  if (ascending(time)) throw new DataError(`${from.path}.time goes back`);
  const step = from.column('step', count);
  const sizes = (key: string) => from.at(key).each((size) => size.numberOrNull());
  const before = sizes('from');
  const after = sizes('to');
  const askedBy = from.at('asked_by').texts();
  return Array.from(time, (at, i) => ({
    time: at, step: step[i]!, from: before[i] ?? null, to: after[i] ?? null,
    askedBy: askedBy[i] ?? '',
  }));
}

function parsePeak(from: Reader): ViewData['peak'] {
  if (from.absent) return null;
  return {
    time: from.at('time').number(), bytes: from.at('bytes').number(),
    step: from.at('step').number(-1), moment: from.at('moment').number(-1),
    op: from.at('op').text(), byCategory: from.at('by_category').numbers(),
  };
}

function parseResidency(from: Reader, states: number): Residency {
  const count = from.rows('chunk');
  if (count === 0) from = new Reader({}, 'residency');
  const start = from.column('start', count);
  const end = from.column('end', count);
  const chunk = from.indices('chunk', count, kAnyIndex);
  const state = from.indices('state', count, states);
  for (let i = 0; i < count; i++) end[i] = Math.max(start[i]!, end[i]!);
  const order = ascending(start);
  if (!order) return {count, chunk, start, end, state};
  return {
    count, chunk: chunk.map((_, i) => chunk[order[i]!]!),
    start: start.map((_, i) => start[order[i]!]!),
    end: end.map((_, i) => end[order[i]!]!),
    state: state.map((_, i) => state[order[i]!]!),
  };
}

function emptyTable(): Table {
  return {rows: 0, columns: {}};
}

/** All columns that are there; the longest's length is the table's. */
function parseTable(from: Reader): Table {
  if (from.absent) return emptyTable();
  const columns: Table['columns'] = {};
  let rows = -1;
  for (const key of from.keys()) {
    const list = from.at(key).list();
    if (rows >= 0 && list.length !== rows) {
      throw new DataError(`${from.path}.${key} has ${
          list.length} entries, where others have ${rows}`);
    }
    rows = list.length;
    columns[key] = typeof list[0] === 'string' ? from.at(key).texts() :
                                                 from.at(key).numbers();
  }
  return {rows: Math.max(0, rows), columns};
}

function stepTable(steps: Step[]): Table {
  const column = (pick: (step: Step) => number) => steps.map(pick);
  return {
    rows: steps.length,
    columns: {
      step: column((s) => s.step), duration_ns: column((s) => s.end - s.start),
      compute_ns: column((s) => s.computeNs),
      copy_ns: column((s) => s.copyNs),
      optimizer_ns: column((s) => s.optimizerNs),
      network_ns: column((s) => s.networkNs),
      late_ns: column((s) => s.lateNs),
      sent_bytes: column((s) => s.sentBytes),
      received_bytes: column((s) => s.receivedBytes),
      idle_ns: column((s) => s.idleNs), h2d_bytes: column((s) => s.h2dBytes),
      d2h_bytes: column((s) => s.d2hBytes),
      device_peak_bytes: column((s) => s.devicePeakBytes),
      moves: column((s) => s.moves), move_ns: column((s) => s.moveNs),
      loss: column((s) => s.loss ?? NaN),
      plan: column((s) => s.plan),
    },
  };
}

function parseSummary(from: Reader): ViewData['summary'] {
  if (from.absent) return null;
  const number = (key: string) => from.at(key).number();
  return {
    medianStep: from.at('median_step').number(-1), flops: number('flops'),
    steps: number('steps'), stepNs: number('step_ns'),
    computeNs: number('compute_ns'), copyNs: number('copy_ns'),
    optimizerNs: number('optimizer_ns'), networkNs: number('network_ns'),
    lateNs: number('late_ns'), idleNs: number('idle_ns'),
    h2dBytes: number('h2d_bytes'), d2hBytes: number('d2h_bytes'),
    sentBytes: number('sent_bytes'), receivedBytes: number('received_bytes'),
    leastH2dBytes: number('least_h2d_bytes'),
    predictedStepNs: number('predicted_step_ns'),
    predictedPeakBytes: number('predicted_peak_bytes'),
    devicePeakBytes: number('device_peak_bytes'),
    hostPeakBytes: number('host_peak_bytes'),
    deviceBudgetBytes: from.at('device_budget_bytes').numberOrNull(),
    plannedAddresses: from.at('planned_addresses').flagOrNull(),
    predictedMoves: from.at('predicted_moves').numberOrNull(),
    predictedMovedBytes: from.at('predicted_moved_bytes').numberOrNull(),
    moves: number('moves'), moveNs: number('move_ns'),
    keptBlocks: number('kept_blocks'), keptBytes: number('kept_bytes'),
    hostBlocks: number('host_blocks'), hostBytes: number('host_bytes'),
    remadeBlocks: number('remade_blocks'),
    sparedBytes: number('spared_bytes'),
    tokensPerSecond: number('tokens_per_second'),
    advice: from.at('advice').texts(),
  };
}

function parseRefusal(from: Reader): ViewData['refusal'] {
  if (from.absent) return null;
  return {
    message: from.at('message').text(), tier: from.at('tier').text(),
    op: from.at('op').text(), peakBytes: from.at('peak_bytes').number(),
    residentBytes: from.at('resident_bytes').number(),
    smallestDeviceBudgetBytes:
        from.at('smallest_device_budget_bytes').numberOrNull(),
    smallestHostBudgetBytes:
        from.at('smallest_host_budget_bytes').numberOrNull(),
  };
}
