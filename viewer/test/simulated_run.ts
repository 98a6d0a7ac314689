// A small simulation of a training run, whose numbers are plain enough to be
// checked by hand.
//
// The model: an embedding and `layers` equal layers, one chunk each. Forward
// fetches the chunks in order, backward in reverse, where gradients take their
// places, leave, are reduced on the host and updated there.
import {finish} from './view_columns';

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

export const kMiB = 1048576;
const kForward = [
  'ln_1', 'attn.c_attn', 'attn.attention', 'attn.c_proj', 'ln_2', 'mlp.c_fc',
  'mlp.act', 'mlp.c_proj',
];

export interface Span {
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

export interface Op {
  name: string;
  kind: 'compute'|'reduce'|'update';
  phase: 'forward'|'backward'|'optimizer';
  chunk: number;
  writes: boolean;
  duration: number;
}

export const kKinds = [
  'other', 'operator', 'fetch', 'copy_back', 'reduce', 'update', 'clip',
  'input', 'move', 'gather', 'exchange', 'planning', 'saving',
];
/** The kinds as a view has them. */
export const kKindRows = kKinds.map((name) => ({
  name, color: name === 'planning' || name === 'saving' ? 'pause' : name,
  copies: name === 'fetch' || name === 'copy_back',
}));
export const kStates = [
  {name: 'arriving', tier: 'device'}, {name: 'hold', tier: 'device'},
  {name: 'compute', tier: 'device'}, {name: 'gradients', tier: 'device'},
  {name: 'leaving', tier: 'device'}, {name: 'reducing', tier: 'host'},
  {name: 'updating', tier: 'host'},
];

/** Of the matrix products, a thousand a nanosecond. */
export function flopsOf(op: Op): number {
  return /\.c_/.test(op.name) ? 1000 * op.duration : 0;
}

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
                          note: `its gradients are finished; chunk ` +
                              `${op.chunk} is updated on the host`});
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
      flops: ops.map(flopsOf), duration_ns: ops.map((o) => o.duration),
      host_duration_ns: ops.map((o) => o.kind === 'compute' ? 0 : o.duration),
      chunks: ops.map((o) => [o.chunk]),
      writes: ops.map((o) => o.writes ? [o.chunk] : []),
    },
  }];
  return finish(
      {spans, residency, memory, predicted, stepRows, results, programs, ops,
       chunkBytes, budget, chunks, options});
}
