// Search by the name of an operator or of a parameter: what matches, and where
// it is on the time axis.
import type {Model} from './model';

export interface Match {
  kind: 'operator'|'parameter';
  name: string;
  /** An operator's program and moment, or a parameter's chunk. */
  program: number;
  moment: number;
  chunk: number;
}

export interface Hits {
  query: string;
  matches: Match[];
  /** Spans, by ascending start. */
  spans: Int32Array;
  isHit: Uint8Array;
  chunks: Set<number>;
  /** Operators: "program/moment". */
  ops: Set<string>;
}

/**
 * All words of the query must be in a name, in any order, in any case. A star
 * stands for a part of a name: "h.*.attn/forward" is found in every block.
 */
export function matcher(query: string): (name: string) => boolean {
  const words = query.toLowerCase().split(/\s+/).filter((w) => w.length > 0);
  if (words.length === 0) return () => false;
  const tests = words.map((word) => {
    if (!word.includes('*')) return (name: string) => name.includes(word);
    const parts = word.split(/\*+/).map(
        (part) => part.replace(/[\\^$.|?+()[\]{}]/g, '\\$&'));
    const pattern = new RegExp(parts.join('[^./\\s]*'));
    return (name: string) => pattern.test(name);
  });
  return (name) => {
    const lower = name.toLowerCase();
    return tests.every((test) => test(lower));
  };
}

export function search(model: Model, query: string): Hits {
  const {spans, strings, programs, steps, plans} = model.data;
  const matches = matcher(query);
  const found: Match[] = [];
  const ops = new Set<string>();
  const chunks = new Set<number>();
  // The two shapes of step of a run, training and evaluation, share parameters.
  const parameters = new Set<string>();
  programs.forEach((program, p) => {
    program.ops.forEach((op, moment) => {
      if (!matches(op.name)) return;
      ops.add(`${p}/${moment}`);
      found.push(
          {kind: 'operator', name: op.name, program: p, moment, chunk: -1});
    });
    program.chunks.forEach((chunk, c) => {
      for (const name of chunk.parameters) {
        if (!matches(name)) continue;
        chunks.add(c);
        if (parameters.has(`${c}/${name}`)) continue;
        parameters.add(`${c}/${name}`);
        found.push(
            {kind: 'parameter', name, program: p, moment: -1, chunk: c});
      }
    });
  });
  const labels = strings.map(matches);
  const isHit = new Uint8Array(spans.count);
  let count = 0;
  for (let i = 0; i < spans.count; i++) {
    const program = plans[steps[spans.step[i]!]?.plan ?? -1]?.program ?? -1;
    const kind = model.kindName(i);
    // A copy stands for its chunk, not for the operator that it is made for.
    const byOp = (kind === 'operator' || kind === 'reduce' ||
                  kind === 'update') &&
        ops.size > 0 && ops.has(`${program}/${spans.moment[i]}`);
    const byChunk = kind !== 'operator' && kind !== 'wait' &&
        chunks.has(spans.chunk[i]!);
    if (byOp || byChunk || labels[spans.label[i]!]) {
      isHit[i] = 1;
      count++;
    }
  }
  const list = new Int32Array(count);
  for (let i = 0, n = 0; i < spans.count; i++) {
    if (isHit[i]) list[n++] = i;
  }
  return {query, matches: found, spans: list, isHit, chunks, ops};
}

/** The hit after (or before) a span, or a time where none is selected. */
export function nextHit(
    hits: Hits, model: Model, selected: number, time: number,
    backwards: boolean): number {
  const {spans} = hits;
  if (spans.length === 0) return -1;
  const starts = model.data.spans.start;
  if (backwards) {
    for (let i = spans.length - 1; i >= 0; i--) {
      const item = spans[i]!;
      if (selected >= 0 ? item < selected : starts[item]! < time) return item;
    }
    return spans[spans.length - 1]!;
  }
  for (const item of spans) {
    if (selected >= 0 ? item > selected : starts[item]! >= time) return item;
  }
  return spans[0]!;
}
