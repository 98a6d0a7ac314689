// Views for the tests: a small simulation of a training run, whose numbers are
// plain enough to be checked by hand, and the odd cases made from it.
//
// The model: an embedding and `layers` equal layers, one chunk each. Forward
// fetches the chunks in order, backward in reverse, where gradients take their
// places, leave, are reduced on the host and updated there.

export interface FixtureOptions {
  layers?: number;
  steps?: number;
  /** Of one layer's chunk. */
  chunkBytes?: number;
  budgetBytes?: number|null;
  /** Chunks that fit on the device at once. */
  room?: number;
  fetchNs?: number;
  opNs?: number;
  source?: string;
}

const kMiB = 1048576;
const kForward = [
  'ln_1', 'attn.c_attn', 'attn.attention', 'attn.c_proj', 'ln_2', 'mlp.c_fc',
  'mlp.act', 'mlp.c_proj',
];

interface Span {
  stream: number;
  kind: number;
  step: number;
  moment: number;
  chunk: number;
  start: number;
  end: number;
  label: string;
  bytes: number;
  because: number;
  cause: Span|null;
  note: string;
}

interface Op {
  name: string;
  kind: 'compute'|'reduce'|'update';
  phase: 'forward'|'backward'|'optimizer';
  chunk: number;
  writes: boolean;
  duration: number;
}

export const kKinds = [
  'other', 'operator', 'fetch', 'copy_back', 'reduce', 'update', 'clip',
  'input', 'move',
];
export const kStates = [
  {name: 'arriving', tier: 'device'}, {name: 'hold', tier: 'device'},
  {name: 'compute', tier: 'device'}, {name: 'gradients', tier: 'device'},
  {name: 'leaving', tier: 'device'}, {name: 'reducing', tier: 'host'},
  {name: 'updating', tier: 'host'},
];

function makeOps(layers: number, opNs: number): Op[] {
  const ops: Op[] = [];
  const add =
      (name: string, kind: Op['kind'], phase: Op['phase'], chunk: number,
       duration: number) => ops.push(
          {name, kind, phase, chunk, writes: phase !== 'forward', duration});
  add('transformer.wte/forward', 'compute', 'forward', 0, opNs);
  for (let l = 0; l < layers; l++) {
    for (const part of kForward) {
      add(`transformer.h.${l}.${part}/forward`, 'compute', 'forward', l + 1,
          part.startsWith('mlp.c') ? 3 * opNs : opNs);
    }
  }
  add('lm_head/forward', 'compute', 'forward', 0, 4 * opNs);
  add('lm_head/backward', 'compute', 'backward', 0, 6 * opNs);
  for (let l = layers - 1; l >= 0; l--) {
    for (const part of [...kForward].reverse()) {
      add(`transformer.h.${l}.${part}/backward`, 'compute', 'backward', l + 1,
          part.startsWith('mlp.c') ? 6 * opNs : 2 * opNs);
    }
    add(`reduce(${l + 1})`, 'reduce', 'backward', l + 1, opNs);
  }
  add('transformer.wte/backward', 'compute', 'backward', 0, opNs);
  add('reduce(0)', 'reduce', 'backward', 0, opNs);
  for (let c = 0; c <= layers; c++) {
    add(`update(${c})`, 'update', 'optimizer', c, 2 * opNs);
  }
  return ops;
}

/** A finished run. */
export function makeView(options: FixtureOptions = {}): any {
  const layers = options.layers ?? 6;
  const steps = options.steps ?? 4;
  const chunkBytes = options.chunkBytes ?? 4 * kMiB;
  const budget = options.budgetBytes === undefined ? 48 * kMiB :
                                                     options.budgetBytes;
  const room = options.room ?? 4;
  const fetchNs = options.fetchNs ?? 900_000;
  const opNs = options.opNs ?? 200_000;
  const ops = makeOps(layers, opNs);
  const chunks = layers + 1;

  const spans: Span[] = [];
  const residency =
      {chunk: [] as number[], start: [] as number[], end: [] as number[],
       state: [] as number[]};
  const memory = {time: [] as number[], op: [] as number[],
                  step: [] as number[], bytes: [] as number[][]};
  const predicted = {time: [] as number[], bytes: [] as number[]};
  const stepRows: any[] = [];
  const results = {step: [] as number[], duration_ns: [] as number[],
                   stall_ns: [] as number[], loss: [] as number[],
                   h2d_bytes: [] as number[], d2h_bytes: [] as number[]};

  // The streams' clocks: compute, to the device, from it, the host's work.
  const clock = [1_000_000, 1_000_000, 1_000_000, 1_000_000];
  const resident = new Map<number, {since: number, dirty: boolean,
                                    arrived: Span|null}>();
  const lastUpdate: (Span|null)[] = new Array(chunks).fill(null);
  // The reduce that frees a chunk's room.
  let activations = 0;

  const put = (span: Partial<Span>): Span => {
    const whole: Span = {stream: 0, kind: 0, step: -1, moment: -1, chunk: -1,
                         start: 0, end: 0, label: '', bytes: 0, because: -1,
                         cause: null, note: '', ...span};
    spans.push(whole);
    clock[whole.stream] = whole.end;
    return whole;
  };
  const stay = (chunk: number, start: number, end: number, state: number) => {
    if (end <= start) return;
    residency.chunk.push(chunk);
    residency.start.push(start);
    residency.end.push(end);
    residency.state.push(state);
  };
  const wait = (stream: number, until: Span, moment: number, step: number,
                note: string) => {
    if (until.end <= clock[stream]!) return;
    put({stream, kind: -1, step, moment, chunk: until.chunk,
         start: clock[stream]!, end: until.end,
         label: `wait for ${until.label}`, cause: until, note});
  };

  for (let s = 0; s < steps; s++) {
    const start = clock[0]!;
    const row = {h2d: 0, d2h: 0, wait: 0, compute: 0, opt: 0, peak: 0};
    for (let m = 0; m < ops.length; m++) {
      const op = ops[m]!;
      if (op.kind === 'reduce') {
        const home = resident.get(op.chunk)!;
        const ready = clock[0]!;
        clock[2] = Math.max(clock[2]!, ready);
        const copy = put({stream: 2, kind: 3, step: s, moment: m,
                          chunk: op.chunk, start: clock[2]!,
                          end: clock[2]! + fetchNs, bytes: chunkBytes,
                          label: `copy back chunk ${op.chunk}`, because: m,
                          note: `its gradients are finished; chunk ${op.chunk}` +
                              ` is updated on the host`});
        row.d2h += chunkBytes;
        stay(op.chunk, home.since, copy.start, 3);
        stay(op.chunk, copy.start, copy.end, 4);
        resident.delete(op.chunk);
        wait(3, copy, m, s, 'the gradients were still on their way; ' +
                            'a faster bus would have avoided it');
        clock[3] = Math.max(clock[3]!, copy.end);
        const reduce = put({stream: 3, kind: 4, step: s, moment: m,
                            chunk: op.chunk, start: clock[3]!,
                            end: clock[3]! + op.duration, label: op.name});
        stay(op.chunk, reduce.start, reduce.end, 5);
        continue;
      }
      if (op.kind === 'update') {
        const update = put({stream: 3, kind: 5, step: s, moment: m,
                            chunk: op.chunk, start: clock[3]!,
                            end: clock[3]! + op.duration, label: op.name});
        stay(op.chunk, update.start, update.end, 6);
        lastUpdate[op.chunk] = update;
        continue;
      }
      // Fetch this chunk, if it is not there.
      if (!resident.has(op.chunk)) {
        while (resident.size >= room) {
          // The clean one that is used last makes room.
          const victim = [...resident.entries()].find(
              ([c, r]) => c !== op.chunk && !r.dirty);
          if (!victim) break;
          stay(victim[0], victim[1].since, clock[0]!, 1);
          resident.delete(victim[0]);
        }
        const before = lastUpdate[op.chunk];
        if (before) {
          wait(1, before, m, s, `chunk ${op.chunk} was still being updated ` +
              `on the host; more device memory would keep it there`);
        }
        // Prefetch: as early as its copy stream is free, one layer ahead.
        clock[1] = Math.max(clock[1]!, clock[0]! - 4 * opNs);
        const fetch = put({stream: 1, kind: 2, step: s, moment: m,
                           chunk: op.chunk, start: clock[1]!,
                           end: clock[1]! + fetchNs, bytes: chunkBytes,
                           label: `fetch chunk ${op.chunk}`, because: m,
                           note: `operator ${m} (${op.name}) needs it`});
        row.h2d += chunkBytes;
        stay(op.chunk, fetch.start, fetch.end, 0);
        resident.set(op.chunk,
                     {since: fetch.end, dirty: false, arrived: fetch});
        const waited = clock[0]!;
        wait(0, fetch, m, s, `chunk ${op.chunk} was fetched too late: there ` +
            `was no room for it earlier; a budget larger by ${
                (chunkBytes / kMiB).toFixed(0)} MiB would have avoided it`);
        row.wait += clock[0]! - waited;
      }
      const place = resident.get(op.chunk)!;
      const begin = clock[0]!;
      const span = put({stream: 0, kind: 1, step: s, moment: m,
                        chunk: op.chunk, start: begin,
                        end: begin + op.duration, label: op.name});
      row.compute += op.duration;
      stay(op.chunk, place.since, begin, place.dirty ? 3 : 1);
      stay(op.chunk, begin, span.end, 2);
      place.since = span.end;
      if (op.phase === 'backward') place.dirty = true;
      activations += op.phase === 'forward' ? 0.25 * kMiB : -0.125 * kMiB;
      activations = Math.max(0, activations);
      const dirty = [...resident.values()].filter((r) => r.dirty).length;
      const workspace = m % 3 === 0 ? kMiB / 2 : 0;
      const bytes = [
        (resident.size - dirty) * chunkBytes, dirty * chunkBytes, 2 * kMiB,
        activations, workspace, 1024,
      ];
      memory.time.push(begin);
      memory.op.push(m);
      memory.step.push(s);
      memory.bytes.push(bytes);
      const total = bytes.reduce((a, b) => a + b, 0);
      row.peak = Math.max(row.peak, total);
      predicted.time.push(begin);
      predicted.bytes.push(total + (m % 5 === 0 ? kMiB / 4 : 0));
    }
    // The step ends with its last update.
    const tail = Math.max(0, clock[3]! - clock[0]!);
    if (tail > 0) {
      const last = spans[spans.length - 1]!;
      wait(0, last, ops.length - 1, s,
           'the optimizer on the host was not done; more threads, or more ' +
               'optimizer states on the device, would shorten it');
    }
    clock[0] = Math.max(clock[0]!, clock[3]!);
    activations = 0;
    row.opt = tail;
    const end = clock[0]!;
    stepRows.push({
      step: s + 3, plan: 0, start_ns: start, end_ns: end, whole: true,
      compute_ns: row.compute, wait_ns: row.wait + row.opt,
      optimizer_ns: row.opt, copy_ns: row.wait, idle_ns: 0,
      h2d_bytes: row.h2d, d2h_bytes: row.d2h, device_peak_bytes: row.peak,
      loss: 5.5 - s / 10,
    });
    results.step.push(s + 3);
    results.duration_ns.push(end - start);
    results.stall_ns.push(row.wait + row.opt);
    results.loss.push(5.5 - s / 10);
    results.h2d_bytes.push(row.h2d);
    results.d2h_bytes.push(row.d2h);
  }
  for (const [c, place] of resident) stay(c, place.since, clock[0]!, 1);

  const programs = [{
    signature: 'fixture', training: true, micro_batches: 1,
    chunks: Array.from({length: chunks}, (_, c) => ({
      payload_bytes: chunkBytes, optimizer_bytes: 3 * chunkBytes,
      parameters: c === 0 ? ['transformer.wte.weight'] :
          kForward.filter((p) => !p.includes('a')).concat('attn.c_attn').map(
              (p) => `transformer.h.${c - 1}.${p}.weight`),
      uses: ops.flatMap((op, m) => op.chunk === c ? [m] : []),
    })),
    ops: {
      name: ops.map((o) => o.name), kind: ops.map((o) => o.kind),
      phase: ops.map((o) => o.phase),
      shapes: ops.map(() => '[4, 256, 384] -> [4, 256, 1536]'),
      non_model_peak_bytes: ops.map((_, m) => m % 7 * kMiB),
      workspace_bytes: ops.map((_, m) => m % 3 === 0 ? kMiB / 2 : 0),
      duration_ns: ops.map((o) => o.duration),
      host_duration_ns: ops.map((o) => o.kind === 'compute' ? 0 : o.duration),
      chunks: ops.map((o) => [o.chunk]),
      writes: ops.map((o) => o.writes ? [o.chunk] : []),
    },
  }];
  return finish(
      {spans, residency, memory, predicted, stepRows, results, programs, ops,
       chunkBytes, budget, chunks, options});
}

/** Points of all categories as a list of points for each category. */
function byCategory(points: number[][]): number[][] {
  return [0, 1, 2, 3, 4, 5].map((c) => points.map((point) => point[c]!));
}

/** Columns, tables and the summary. */
function finish(run: any): any {
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
    kinds: kKinds,
    programs: run.programs,
    plans: [{
      program: 0, policy: 'auto', warmup: false, device_budget_bytes: budget,
      host_budget_bytes: 1024 * kMiB, h2d_bytes_per_s: 8e9,
      d2h_bytes_per_s: 8e9, device_side: [],
      predicted: {step_ns: Math.round(stepNs * 0.98), stall_ns: 0,
                  h2d_bytes: median?.h2d_bytes ?? 0,
                  d2h_bytes: median?.d2h_bytes ?? 0,
                  device_peak_bytes: totals[at] ?? 0,
                  host_bytes: chunks * 4 * chunkBytes,
                  least_h2d_bytes: chunks * chunkBytes},
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
        wait_ns: waitByMoment,
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
      tokens_per_second: stepNs ? 1024e9 / stepNs : 0,
      advice: [
        'Compute waits for the optimizer on the host at the end of each step. ' +
            'More threads, or a larger device budget, would help most.',
        'Chunks are fetched twice a step: the budget holds 4 of them.',
      ],
    },
    refusal: null,
  };
}

/** A run that was refused before its first step. */
export function makeRefused(): any {
  const view = makeView({steps: 0});
  return {
    ...view, source: 'refused.trace', status: 'refused',
    message: 'does not fit: 10.9 MiB are needed', plans: [], memory:
        {time: [], op: [], step: [], bytes: []}, host_memory:
        {time: [], bytes: []}, summary: null, peak: null,
    run: {...view.run, device_budget_bytes: 8 * kMiB},
    refusal: {
      message: 'the run does not fit in 8.00 MiB of device memory: ' +
          'transformer.h.5.mlp.c_proj/backward needs 5.50 MiB',
      tier: 'device', op: 'transformer.h.5.mlp.c_proj/backward',
      peak_bytes: 5.5 * kMiB, resident_bytes: 4 * kMiB,
      smallest_device_budget_bytes: 9.5 * kMiB,
      smallest_host_budget_bytes: null,
    },
  };
}

/** A file with no more than its first line. */
export function makeEmpty(): any {
  return {
    version: 1, source: 'empty.trace', status: 'empty',
    message: 'the trace holds no records', truncated: false, run: null,
    categories: [], streams: [], kinds: kKinds, programs: [], plans: [],
    steps: [], results: {step: [], duration_ns: [], stall_ns: [], loss: [],
                         h2d_bytes: [], d2h_bytes: []},
    spans: {stream: [], kind: [], step: [], moment: [], chunk: [], start: [],
            end: [], label: [], bytes: [], because: [], cause: [], note: []},
    strings: [], memory: {time: [], op: [], step: [], bytes: []},
    host_memory: {time: [], bytes: []},
    predicted_memory: {time: [], bytes: []}, peak: null,
    residency: {chunk: [], start: [], end: [], state: []}, states: kStates,
    tables: {
      operators: {name: [], program: [], moment: [], phase: [], kind: [],
                  shapes: [], count: [], total_ns: [], mean_ns: [], max_ns: [],
                  peak_bytes: [], non_model_peak_bytes: [], wait_ns: []},
      chunks: {chunk: [], payload_bytes: [], optimizer_bytes: [], side: [],
               parameters: [], fetches: [], fetched_bytes: [],
               copied_back_bytes: [], resident_share: [], wait_ns: []},
      waits: {cause: [], remedy: [], stream: [], count: [], total_ns: [],
              max_ns: [], longest_span: []},
    },
    summary: null, refusal: null,
  };
}

/** A run whose writer was killed within a record of its last step. */
export function makeTruncated(): any {
  const view = makeView({steps: 3});
  const steps = view.steps.map((s: any) => ({...s}));
  steps[2].whole = false;
  return {
    ...view, steps, source: 'killed.trace', status: 'running or killed',
    truncated: true, message: 'the file ends within a record, at line 4711',
  };
}

/** At least `events` spans. */
export function makeLarge(events = 100_000): any {
  return makeView({
    layers: 24, steps: Math.ceil(events / 570), chunkBytes: 28 * kMiB,
    budgetBytes: 256 * kMiB, room: 6, source: 'large.trace',
  });
}

/** Names that would be markup, numbers at their limits, very long strings. */
export function makeHostile(): any {
  const evil = '</script><img src=x onerror="window.hacked=1">' +
      '<script>window.hacked=1</script>';
  const long = 'x'.repeat(100_000);
  const view = makeView();
  const spoil = (text: string) => evil + text;
  view.strings = view.strings.map(spoil);
  view.strings[0] = long;
  view.source = evil;
  view.message = evil;
  view.run.title = evil + long;
  view.run.device = evil;
  view.categories = view.categories.map(spoil);
  for (const stream of view.streams) stream.label = evil;
  for (const program of view.programs) {
    program.ops.name = program.ops.name.map(spoil);
    program.ops.shapes = program.ops.shapes.map(spoil);
    for (const chunk of program.chunks) {
      chunk.parameters = chunk.parameters.map(spoil);
    }
  }
  view.tables.operators.name = view.tables.operators.name.map(spoil);
  view.tables.operators.total_ns[0] = Number.MAX_SAFE_INTEGER;
  view.tables.chunks.parameters = view.tables.chunks.parameters.map(spoil);
  view.tables.waits.cause = view.tables.waits.cause.map(spoil);
  view.tables.waits.remedy = view.tables.waits.remedy.map(spoil);
  view.tables.waits.longest_span = view.tables.waits.longest_span.map(
      () => 1e15);
  view.summary.advice = [evil, long];
  view.peak.op = evil;
  view.states = view.states.map((s: any) => ({...s, name: evil + s.name}));
  // Indices of nothing, and an event at the end of time.
  view.spans.cause[3] = 1e12;
  view.spans.chunk[4] = 123_456_789;
  view.spans.moment[5] = -77;
  view.spans.label[6] = 9e9;
  view.spans.end[7] = Number.MAX_SAFE_INTEGER;
  view.memory.bytes[0][1] = Number.MAX_SAFE_INTEGER;
  return view;
}

/** The same model with more room and a faster bus, to compare with. */
export function makeFaster(): any {
  return makeView({room: 8, fetchNs: 500_000, budgetBytes: 64 * kMiB,
                   source: 'faster.trace'});
}

export function makeComparison(): any {
  const a = makeView();
  const b = makeFaster();
  const row = (name: string, unit: string, pick: (view: any) => number) =>
      ({name, unit, a: pick(a), b: pick(b)});
  return {
    views: [a, b],
    comparison: {
      rows: [
        row('step time', 'ns', (v) => v.summary.step_ns),
        row('compute', 'ns', (v) => v.summary.compute_ns),
        row('exposed copies', 'ns', (v) => v.summary.copy_ns),
        row('bytes to the device', 'bytes', (v) => v.summary.h2d_bytes),
        row('device peak', 'bytes', (v) => v.summary.device_peak_bytes),
        row('tokens per second', 'tokens_per_s',
            (v) => v.summary.tokens_per_second),
      ],
      notes: ['the device budget grew from 48.0 MiB to 64.0 MiB'],
    },
  };
}
