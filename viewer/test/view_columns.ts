// From a simulated run to a view: columns, tables and the summary, as the
// analysis of a trace would make them.
import {
  flopsOf, kKindRows, kMiB, kStates, type Op, type Span,
} from './simulated_run';

/** Points of all categories as a list of points for each category. */
function byCategory(points: number[][]): number[][] {
  return [0, 1, 2, 3, 4, 5].map((c) => points.map((point) => point[c]!));
}

const totalOf = (numbers: number[]) => numbers.reduce((a, b) => a + b, 0);

/** Operators summed up over what differs in numbers alone. */
function modulesOf(ops: Op[], byMoment: Span[][], steps: any[]): any {
  const stepNs = totalOf(steps.map((s) => s.end_ns - s.start_ns));
  const rows = new Map<string, any>();
  ops.forEach((op, m) => {
    const pattern = op.name.replace(/\.\d+\./g, '.*.');
    const slash = pattern.lastIndexOf('/');
    const key = op.kind === 'compute' ? pattern : op.kind;
    const row = rows.get(key) ?? {
      pattern: key, module: slash < 0 ? 'all chunks' : pattern.slice(0, slash),
      kind: slash < 0 ? op.kind : pattern.slice(slash + 1), phase: op.phase,
      operators: 0, count: 0, total_ns: 0, max_ns: 0, flops: 0, peak_bytes: 0,
      wait_ns: 0,
    };
    rows.set(key, row);
    const times = byMoment[m]!.map((s) => s.end - s.start);
    row.operators++;
    row.count += times.length;
    row.total_ns += totalOf(times);
    row.max_ns = Math.max(row.max_ns, ...times);
    row.flops += flopsOf(op) * times.length;
  });
  const list = [...rows.values()].filter((row) => row.count > 0)
                   .sort((a, b) => b.total_ns - a.total_ns);
  for (const row of list) {
    row.share = row.total_ns / stepNs;
    row.flops_per_s = row.flops * 1e9 / row.total_ns;
  }
  const keys = [
    'pattern', 'module', 'kind', 'phase', 'operators', 'count', 'total_ns',
    'max_ns', 'share', 'flops', 'flops_per_s', 'peak_bytes', 'wait_ns',
  ];
  return Object.fromEntries(
      keys.map((key) => [key, list.map((row) => row[key])]));
}

/** Columns, tables and the summary. */
export function finish(run: any): any {
  const {memory, stepRows, ops, chunkBytes, budget, chunks, options} = run;
  const spans: Span[] = run.spans;
  spans.sort((a, b) => a.start - b.start || a.stream - b.stream);
  const place = new Map(spans.map((span, i) => [span, i]));
  const strings: string[] = [];
  const known = new Map<string, number>();
  const intern = (text: string) => {
    if (!known.has(text)) {
      known.set(text, strings.length);
      strings.push(text);
    }
    return known.get(text)!;
  };
  const column = (pick: (span: Span) => number) => spans.map(pick);

  let at = 0;
  const totals: number[] =
      memory.bytes.map((b: number[]) => b.reduce((x, y) => x + y, 0));
  totals.forEach((total, i) => { if (total > totals[at]!) at = i; });
  const waits = spans.filter((s) => s.kind < 0);
  const causes = [
    {cause: 'a chunk arrived late', remedy: 'a larger device budget',
     stream: 0, of: waits.filter((w) => w.stream === 0 && w.cause!.kind === 2)},
    {cause: 'the optimizer on the host', remedy: 'more threads', stream: 0,
     of: waits.filter((w) => w.stream === 0 && w.cause!.kind === 5)},
    {cause: 'a chunk was still being updated', remedy: 'a larger device budget',
     stream: 1, of: waits.filter((w) => w.stream === 1)},
    {cause: 'gradients on their way', remedy: 'a faster bus', stream: 3,
     of: waits.filter((w) => w.stream === 3)},
  ].filter((c) => c.of.length > 0);
  const sum = (list: Span[]) => list.reduce((x, s) => x + s.end - s.start, 0);
  const longest = (list: Span[]) => list.reduce(
      (x, s) => s.end - s.start > x.end - x.start ? s : x, list[0]!);

  const order = [...stepRows].sort(
      (a: any, b: any) => a.end_ns - a.start_ns - b.end_ns + b.start_ns);
  const median = order[order.length >> 1];
  const stepNs = median ? median.end_ns - median.start_ns : 0;
  const byMoment: Span[][] = ops.map(() => []);
  const waitByMoment: number[] = ops.map(() => 0);
  const waitByChunk: number[] = new Array(chunks).fill(0);
  const fetches: number[] = new Array(chunks).fill(0);
  const copies: number[] = new Array(chunks).fill(0);
  for (const s of spans) {
    if (s.kind < 0) {
      if (s.stream === 0) {
        waitByMoment[s.moment]! += s.end - s.start;
        waitByChunk[s.chunk]! += s.end - s.start;
      }
    } else if (s.kind === 2) fetches[s.chunk]!++;
    else if (s.kind === 3) copies[s.chunk]!++;
    else byMoment[s.moment]!.push(s);
  }
  const peaks: number[] = ops.map(() => 0);
  memory.op.forEach((m: number, i: number) => {
    peaks[m] = Math.max(peaks[m]!, totals[i]!);
  });
  const program = run.programs[0];
  // Of each three blocks one is kept, one by way of the host, one made again.
  const layers = chunks - 1;
  const blocks = Array.from({length: layers}, (_, l) => l);
  const count = (kind: number) => blocks.filter((l) => l % 3 === kind).length;
  const kBlock = 2 * kMiB;
  const atMost = (kind: number, bytes: number) =>
      blocks.map((l) => l % 3 === kind ? bytes : 0);
  program.ops.kept_bytes = ops.map((_: Op, m: number) => m % 5 * kMiB);
  const firstOp = (l: number) => ops.findIndex((o: Op) => o.chunk === l + 1);
  const size = (parameters: string[]) => parameters.length > 2 ?
      `${parameters[0]} … ${parameters[parameters.length - 1]}` :
      parameters.join(', ');
  return {
    version: 1,
    source: options.source ?? 'fixture.trace',
    status: 'finished',
    message: '',
    truncated: false,
    run: {
      title: 'gpt2, 10.8 M parameters, fp32', device: 'host', policy: 'auto',
      device_budget_bytes: budget, host_budget_bytes: 1024 * kMiB,
      steps: 300, tokens_per_step: 1024, threads: 2,
    },
    categories: ['parameters', 'gradients', 'optimizer states', 'activations',
                 'workspace', 'staging'],
    streams: [
      {name: 'compute', label: 'compute'},
      {name: 'host_to_device', label: 'host to device'},
      {name: 'device_to_host', label: 'device to host'},
      {name: 'host_compute', label: 'CPU optimizer'},
    ],
    kinds: kKindRows,
    programs: run.programs,
    plans: [{
      program: 0, policy: 'auto', warmup: false, device_budget_bytes: budget,
      host_budget_bytes: 1024 * kMiB, h2d_bytes_per_s: 8e9,
      d2h_bytes_per_s: 8e9, device_side: [], planned_addresses: true,
      activation_bytes: ops.map((_: Op, m: number) => m % 2 * kBlock),
      predicted: {step_ns: Math.round(stepNs * 0.98), stall_ns: 0,
                  h2d_bytes: median?.h2d_bytes ?? 0,
                  d2h_bytes: median?.d2h_bytes ?? 0,
                  device_peak_bytes: totals[at] ?? 0,
                  host_bytes: chunks * 4 * chunkBytes,
                  least_h2d_bytes: chunks * chunkBytes, moves: 0,
                  moved_bytes: 0},
    }],
    steps: stepRows,
    results: run.results,
    spans: {
      stream: column((s) => s.stream), kind: column((s) => s.kind),
      step: column((s) => s.step), moment: column((s) => s.moment),
      chunk: column((s) => s.chunk), start: column((s) => s.start),
      end: column((s) => s.end), label: column((s) => intern(s.label)),
      bytes: column((s) => s.bytes), because: column((s) => s.because),
      cause: column((s) => s.cause ? place.get(s.cause)! : -1),
      note: column((s) => s.note ? intern(s.note) : -1),
    },
    strings,
    memory: {...memory, bytes: byCategory(memory.bytes)},
    host_memory: {
      time: [0, 1_000_000],
      bytes: byCategory([
        [0, 0, 0, 0, 0, 0],
        [chunks * chunkBytes, 0, 3 * chunks * chunkBytes, 0, 0, 9 * kMiB],
      ]),
    },
    predicted_memory: run.predicted,
    peak: memory.time.length === 0 ? null : {
      time: memory.time[at], bytes: totals[at], step: memory.step[at],
      moment: memory.op[at], op: ops[memory.op[at]].name,
      by_category: memory.bytes[at],
    },
    residency: run.residency,
    states: kStates,
    tables: {
      modules: modulesOf(ops, byMoment, stepRows),
      operators: {
        name: ops.map((o: Op) => o.name), program: ops.map(() => 0),
        moment: ops.map((_: Op, m: number) => m),
        phase: ops.map((o: Op) => o.phase), kind: ops.map((o: Op) => o.kind),
        shapes: program.ops.shapes,
        count: byMoment.map((l) => l.length),
        total_ns: byMoment.map(sum),
        mean_ns: byMoment.map((l) => l.length ? sum(l) / l.length : 0),
        max_ns: byMoment.map(
            (l) => l.reduce((x, s) => Math.max(x, s.end - s.start), 0)),
        peak_bytes: peaks,
        non_model_peak_bytes: program.ops.non_model_peak_bytes,
        wait_ns: waitByMoment, flops: program.ops.flops,
      },
      chunks: {
        chunk: fetches.map((_, c) => c),
        payload_bytes: fetches.map(() => chunkBytes),
        optimizer_bytes: fetches.map(() => 3 * chunkBytes),
        side: fetches.map(() => 'host'),
        parameters: program.chunks.map((c: any) => size(c.parameters)),
        fetches, fetched_bytes: fetches.map((n) => n * chunkBytes),
        copied_back_bytes: copies.map((n) => n * chunkBytes),
        resident_share: fetches.map((_, c) => 1 / (c + 1)),
        wait_ns: waitByChunk,
      },
      blocks: {
        block: blocks, name: blocks.map((l) => ops[firstOp(l)]?.name ?? ''),
        choice: blocks.map(
            (l) => ['kept', 'by way of the host', 'made again'][l % 3]!),
        forward: blocks.map(firstOp),
        backward: blocks.map((l) => ops.findLastIndex(
            (o: Op) => o.chunk === l + 1 && o.phase === 'forward') + 1),
        device_bytes: atMost(0, kBlock), host_bytes: atMost(1, kBlock),
        spared_bytes: atMost(2, kBlock), again_ns: blocks.map(() => 1_000_000),
        copied_back_bytes: atMost(1, 3 * kBlock),
        fetched_bytes: atMost(1, 3 * kBlock), wait_ns: atMost(1, 40_000),
        chunk: blocks.map(() => -1),
      },
      waits: {
        cause: causes.map((c) => c.cause), remedy: causes.map((c) => c.remedy),
        stream: causes.map((c) => c.stream),
        count: causes.map((c) => c.of.length),
        total_ns: causes.map((c) => sum(c.of)),
        max_ns: causes.map((c) => sum([longest(c.of)])),
        longest_span: causes.map((c) => place.get(longest(c.of))!),
      },
    },
    summary: {
      steps: stepRows.length, step_ns: stepNs,
      median_step: stepRows.indexOf(median), flops: totalOf(program.ops.flops),
      compute_ns: median?.compute_ns ?? 0, copy_ns: median?.copy_ns ?? 0,
      optimizer_ns: median?.optimizer_ns ?? 0,
      idle_ns: median ? stepNs - median.compute_ns - median.copy_ns -
              median.optimizer_ns : 0,
      h2d_bytes: median?.h2d_bytes ?? 0, d2h_bytes: median?.d2h_bytes ?? 0,
      least_h2d_bytes: chunks * chunkBytes,
      predicted_step_ns: Math.round(stepNs * 0.98),
      predicted_peak_bytes: totals[at] ?? 0,
      device_peak_bytes: totals[at] ?? 0,
      host_peak_bytes: chunks * 4 * chunkBytes + 9 * kMiB,
      device_budget_bytes: budget,
      planned_addresses: true, predicted_moves: 0, predicted_moved_bytes: 0,
      moves: 0, move_ns: 0, kept_blocks: count(0),
      kept_bytes: count(0) * kBlock, host_blocks: count(1),
      host_bytes: count(1) * kBlock, remade_blocks: count(2),
      spared_bytes: count(2) * kBlock,
      tokens_per_second: stepNs ? 1024e9 / stepNs : 0,
      advice: [
        'Compute waits for the optimizer on the host at the end of each ' +
            'step. More threads, or a larger device budget, would help most.',
        'Chunks are fetched twice a step: the budget holds 4 of them.',
      ],
    },
    refusal: null,
  };
}
