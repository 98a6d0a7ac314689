// Views for the tests: a simulated run, and the odd cases made from it.
import {kKindRows, kKinds, kMiB, kStates, makeView} from './simulated_run';

export {kMiB, makeView};

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
    categories: [], streams: [], kinds: kKindRows, programs: [], plans: [],
    steps: [], results: {step: [], duration_ns: [], stall_ns: [], loss: [],
                         h2d_bytes: [], d2h_bytes: []},
    spans: {stream: [], kind: [], step: [], moment: [], chunk: [], start: [],
            end: [], label: [], bytes: [], because: [], cause: [], note: []},
    strings: [], memory: {time: [], op: [], step: [], bytes: []},
    host_memory: {time: [], bytes: []},
    predicted_memory: {time: [], bytes: []}, peak: null,
    residency: {chunk: [], start: [], end: [], state: []}, states: kStates,
    tables: {
      modules: {pattern: [], module: [], kind: [], phase: [], operators: [],
                count: [], total_ns: [], max_ns: [], share: [], flops: [],
                flops_per_s: [], peak_bytes: [], wait_ns: []},
      operators: {name: [], program: [], moment: [], phase: [], kind: [],
                  shapes: [], count: [], total_ns: [], mean_ns: [], max_ns: [],
                  peak_bytes: [], non_model_peak_bytes: [], wait_ns: []},
      chunks: {chunk: [], payload_bytes: [], optimizer_bytes: [], side: [],
               parameters: [], fetches: [], fetched_bytes: [],
               copied_back_bytes: [], resident_share: [], wait_ns: []},
      waits: {cause: [], remedy: [], stream: [], count: [], total_ns: [],
              max_ns: [], longest_span: []},
      blocks: {block: [], name: [], choice: [], forward: [], backward: [],
               device_bytes: [], host_bytes: [], spared_bytes: [],
               again_ns: [], copied_back_bytes: [], fetched_bytes: [],
               wait_ns: [], chunk: []},
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
  view.tables.modules.module = view.tables.modules.module.map(spoil);
  view.tables.modules.pattern = view.tables.modules.pattern.map(spoil);
  view.tables.operators.name = view.tables.operators.name.map(spoil);
  view.tables.operators.total_ns[0] = Number.MAX_SAFE_INTEGER;
  view.tables.chunks.parameters = view.tables.chunks.parameters.map(spoil);
  view.tables.waits.cause = view.tables.waits.cause.map(spoil);
  view.tables.blocks.name = view.tables.blocks.name.map(spoil);
  view.tables.blocks.choice = view.tables.blocks.choice.map(spoil);
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

/** The same without addresses: blocks are moved, and none of its blocks known.
 */
export function makeMoving(): any {
  const view = makeView({source: 'moving.trace'});
  view.plans[0] = {...view.plans[0], planned_addresses: false};
  view.plans[0].predicted =
      {...view.plans[0].predicted, moves: 3, moved_bytes: 1.5 * kMiB};
  Object.assign(view.summary, {
    planned_addresses: false, predicted_moves: 3,
    predicted_moved_bytes: 1.5 * kMiB, moves: 4, move_ns: 70_000,
    kept_blocks: 0, host_blocks: 0, remade_blocks: 0,
  });
  for (const step of view.steps) Object.assign(step, {moves: 4, move_ns: 70_000});
  view.tables.blocks = undefined;
  return view;
}

/** Plans are made, and a checkpoint written, before its last step. */
export function makePausing(): any {
  const view = makeView({source: 'pausing.trace'});
  const last = view.steps[3];
  const by = 30_000_000;
  const late = (time: number) => time >= last.start_ns ? time + by : time;
  const {spans, strings} = view;
  const at = spans.start.findIndex((time: number) => time >= last.start_ns);
  for (const key of ['start', 'end']) spans[key] = spans[key].map(late);
  spans.cause = spans.cause.map((i: number) => i >= at ? i + 2 : i);
  const add = (kind: string, from: number, to: number, label: string) => ({
    stream: 0, kind: kKinds.indexOf(kind), step: -1, moment: -1, chunk: -1,
    start: last.start_ns + from, end: last.start_ns + to,
    label: strings.push(label) - 1, bytes: 0, because: -1, cause: -1,
    note: strings.push(`the program is ${label}`) - 1,
  } as any);
  const pauses = [
    add('planning', 0, by / 2, 'planning'),
    add('saving', by / 2, by, 'saving a checkpoint'),
  ];
  for (const key of Object.keys(spans)) {
    spans[key].splice(at, 0, ...pauses.map((pause) => pause[key]));
  }
  for (const curve of [view.memory, view.predicted_memory]) {
    curve.time = curve.time.map(late);
  }
  view.residency.start = view.residency.start.map(late);
  view.residency.end = view.residency.end.map(late);
  last.end_ns += by;
  return view;
}

/** A run whose budget is halved and then raised, each between two steps. */
export function makeResized(): any {
  const view = makeView({source: 'resized.trace'});
  const at = [1, 2].map((step) => view.steps[step].start_ns);
  return {
    ...view,
    budgets: {
      time: at, step: [1, 2], from: [48 * kMiB, 24 * kMiB],
      to: [24 * kMiB, 56 * kMiB], asked_by: ['castor resize', 'follow'],
    },
  };
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

/** A run on three ranks, of which rank 2 is late. */
export function makeRanks(): any {
  const views = ['node-a', 'node-a', 'node-b'].map((host, rank) => {
    // Each rank's own length, so that views can be told apart.
    const view = makeView({steps: 3 + rank});
    view.run = {...view.run, rank, world_size: 3, host, clock_error_ns: 900};
    view.streams.push({name: 'network', label: 'network'});
    const lane = view.streams.length - 1;
    const {spans, strings, steps} = view;
    const [label, waits, note] = ['gather chunk 1', 'wait for rank 2',
      'Rank 2 came 2.00 ms later than this rank to the gather of chunk 1.']
        .map((text) => strings.push(text) - 1);
    const end = steps[steps.length - 1].end_ns;
    spans.late_rank = spans.start.map(() => -1);
    // Last, so that they come last by start too.
    const add = (kind: number, from: number, to: number, text: number,
                 late: number) => {
      const values: any = {
        stream: lane, kind, step: 0, moment: 0, chunk: 1, start: from, end: to,
        label: text, bytes: kind < 0 ? 0 : 4096, because: -1, cause: -1,
        note: kind < 0 ? note : -1, late_rank: late,
      };
      for (const key of Object.keys(values)) {
        spans[key].push(values[key]);
      }
    };
    if (rank < 2) add(-1, end, end + 2_000_000, waits!, 2);
    add(kKinds.indexOf('gather'), end + 2_000_000, end + 2_500_000, label!, -1);
    for (const step of steps) {
      Object.assign(step, {
        network_ns: 500_000, late_ns: rank < 2 ? 2_000_000 : 0,
        sent_bytes: 8192, received_bytes: 4096,
      });
    }
    Object.assign(view.summary, {
      network_ns: 500_000, late_ns: rank < 2 ? 2_000_000 : 0, sent_bytes: 8192,
      received_bytes: 4096,
    });
    return view;
  });
  return {views, ranks: true};
}
