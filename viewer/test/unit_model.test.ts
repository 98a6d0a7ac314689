// The parts that need no page: what is read, found, merged, sorted, linked.
import assert from 'node:assert/strict';
import {describe, it} from 'node:test';

import {Axis} from '../src/axis';
import {DataError, type Table} from '../src/data';
import {
  changeText, clipName, formatBytes, formatChange, formatCount, formatFlops,
  formatTime,
} from '../src/format';
import {decodeState, encodeState, initialState, type State} from '../src/hash';
import {budgetAt, changeBefore, columns, memoryScale} from
    '../src/memory_track';
import {Model} from '../src/model';
import {sortRows} from '../src/order';
import {parse, parseLoaded} from '../src/parse';
import {Row} from '../src/runs';
import {byteTicks, exactTime, timeTicks} from '../src/scale';
import {nextHit, search} from '../src/search';
import * as fixtures from './fixtures';

const read = (view: unknown) => parseLoaded({views: [view]}).views[0]!;

describe('Format', () => {
  it('writes sizes in binary units with three digits', () => {
    assert.equal(formatBytes(0), '0 B');
    assert.equal(formatBytes(1023), '1023 B');
    assert.equal(formatBytes(1024), '1.00 KiB');
    assert.equal(formatBytes(41313894), '39.4 MiB');
    assert.equal(formatBytes(1024 * 1048576), '1.00 GiB');
    assert.equal(formatBytes(2 ** 53), '8.00 PiB');
  });

  it('changes the unit of a time before its digits run out', () => {
    assert.equal(formatTime(999), '999 ns');
    assert.equal(formatTime(999_499), '999 µs');
    assert.equal(formatTime(999_500), '1.00 ms');
    assert.equal(formatTime(51.9e6), '51.9 ms');
    assert.equal(formatTime(2 ** 53), '9.01e+6 s');
  });

  it('says how a number differs from another', () => {
    assert.equal(formatChange(95, 100), '−5.0 %');
    assert.equal(formatChange(103.14, 100), '+3.1 %');
    assert.equal(formatChange(7, 7), '±0');
    assert.equal(formatChange(7, 0), '–');
  });

  it('counts operations in thousands', () => {
    assert.equal(formatFlops(0), '0 FLOP');
    assert.equal(formatFlops(999), '999 FLOP');
    assert.equal(formatFlops(58_000_000_000), '58.0 GFLOP');
    assert.equal(formatFlops(3.2e18), '3.20 EFLOP');
    assert.equal(formatFlops(7e22), '70000 EFLOP');
  });

  it('groups digits, and keeps the ends of names', () => {
    assert.equal(formatCount(1234567), '1\u202f234\u202f567');
    assert.equal(clipName('transformer.h.0.mlp.act', 8), '…mlp.act');
  });
});

describe('Axis', () => {
  it('keeps the time under the pointer when zooming', () => {
    const axis = new Axis({start: 0, end: 1000});
    axis.zoom(0.5, 200);
    assert.deepEqual([axis.start, axis.end], [100, 600]);
    assert.equal(axis.pixel(200, 500), 100);
  });

  it('does not leave what there is', () => {
    const axis = new Axis({start: 100, end: 1100});
    axis.set(-500, 0);
    assert.deepEqual([axis.start, axis.end], [100, 600]);
    axis.pan(100);
    assert.deepEqual([axis.start, axis.end], [600, 1100]);
    axis.zoom(1e9);
    assert.deepEqual([axis.start, axis.end], [100, 1100]);
  });

  it('stops zooming where nothing more is to be seen', () => {
    const axis = new Axis({start: 0, end: 1e15});
    for (let i = 0; i < 200; i++) axis.zoom(0.5, 7e14);
    assert.equal(axis.span, 10);
    assert.ok(axis.start <= 7e14 && 7e14 <= axis.end);
  });

  it('ignores what is no number', () => {
    const axis = new Axis({start: 0, end: 10});
    axis.set(NaN, 5);
    axis.set(0, Infinity);
    assert.deepEqual([axis.start, axis.end], [0, 10]);
  });

  it('brings a range into sight without zooming in', () => {
    const axis = new Axis({start: 0, end: 1000});
    axis.set(0, 100);
    axis.reveal(500, 520);
    assert.deepEqual([axis.start, axis.end], [460, 560]);
    axis.reveal(300, 700);
    assert.deepEqual([axis.start, axis.end], [240, 760]);
  });
});

/** A row of the intervals given as [start, end]. */
function rowOf(intervals: [number, number][]): Row {
  return new Row(
      Int32Array.from(intervals.keys()),
      Float64Array.from(intervals, (i) => i[0]),
      Float64Array.from(intervals, (i) => i[1]));
}

/** What a row draws on 100 pixels: "kind from-to". */
function drawn(row: Row, from: number, to: number, classOf = (_: number) => 0):
    string[] {
  const axis = new Axis({start: from, end: to});
  const result: string[] = [];
  row.draw(axis, 100, 4, classOf,
           (item, x, right) => result.push(`#${item} ${x}-${right}`),
           (kind, x, right) => result.push(`~${kind} ${x}-${right}`));
  return result;
}

describe('Row', () => {
  it('draws what is in sight, clipped to it', () => {
    const row = rowOf([[0, 10], [20, 60], [60, 90], [200, 300]]);
    assert.deepEqual(drawn(row, 50, 150), ['#1 0-10', '#2 10-40']);
  });

  it('merges what is narrower than a pixel by its largest part', () => {
    // 10 ns a pixel: pixel 0 is 3 ns of class 1 and 5 of class 2, pixel 1 all
    // of class 2; the wide item after them stands alone.
    const row = rowOf([[0, 3], [4, 9], [10, 15], [16, 18], [20, 50]]);
    const classes = [1, 2, 2, 2, 3];
    assert.deepEqual(drawn(row, 0, 1000, (i) => classes[i]!),
                     ['~2 0-2', '#4 2-5']);
  });

  it('shows an event of no length', () => {
    assert.deepEqual(drawn(rowOf([[50, 50]]), 0, 100), ['~0 50-51']);
  });

  it('draws no more than its pixels for many events', () => {
    const row = rowOf(Array.from({length: 100_000}, (_, i) => [i, i + 0.5]));
    let calls = 0;
    row.draw(new Axis({start: 0, end: 1e5}), 800, 2, (i) => i >> 7 & 1,
             () => calls++, () => calls++);
    assert.ok(calls > 100 && calls <= 800, `${calls} calls`);
  });

  it('finds the item at a time', () => {
    const row = rowOf([[0, 10], [20, 60], [60, 90]]);
    assert.equal(row.at(-1), -1);
    assert.equal(row.at(0), 0);
    assert.equal(row.at(10), -1);
    assert.equal(row.at(59.5), 1);
    assert.equal(row.at(60), 2);
    assert.equal(row.near(14, 5), 0);
    assert.equal(row.near(17, 5), 1);
    assert.equal(row.near(95, 3), -1);
  });

  it('finds long items below later short ones', () => {
    const row = rowOf([[0, 100], [10, 20], [30, 40]]);
    assert.equal(row.at(50), 0);
    assert.deepEqual(drawn(row, 50, 150), ['#0 0-50']);
  });
});

describe('Memory', () => {
  it('keeps the highest point of each pixel', () => {
    const curve = {
      time: Float64Array.from([0, 1, 2, 3, 500]),
      total: Float64Array.from([5, 9, 1, 2, 7]),
    };
    const points: number[][] = [];
    columns(curve, new Axis({start: 0, end: 1000}), 100, 900,
            (point, x, right) => points.push([point, x, right]));
    assert.deepEqual(points, [[1, 0, 50], [4, 50, 90]]);
  });

  it('holds a value from before the shown range', () => {
    const curve = {
      time: Float64Array.from([0, 900]), total: Float64Array.from([5, 6]),
    };
    const axis = new Axis({start: 0, end: 1000});
    axis.set(500, 800);
    const points: number[][] = [];
    columns(curve, axis, 100, 1000,
            (point, x, right) => points.push([point, x, right]));
    assert.deepEqual(points, [[0, 0, 100]]);
  });

  it('leaves out a budget that would flatten everything', () => {
    const view = read(fixtures.makeView());
    const most = Math.max(...view.memory.total, ...view.predictedMemory.total);
    const top = (budget: number) => memoryScale([
      {...view, run: {deviceBudgetBytes: budget}},
    ]).top;
    assert.equal(top(2 * most), 2 * most * 1.03);
    assert.equal(top(1000 * most), most * 1.03);
  });

  it('knows the budget of each moment, and who changed it', () => {
    const view = read(fixtures.makeResized());
    assert.equal(view.budgets.length, 2);
    const [first, second] = view.budgets;
    assert.equal(budgetAt(view, first!.time - 1), 48 * fixtures.kMiB);
    assert.equal(budgetAt(view, first!.time), 24 * fixtures.kMiB);
    assert.equal(budgetAt(view, second!.time), 56 * fixtures.kMiB);
    assert.equal(changeBefore(view.budgets, first!.time - 1), null);
    assert.equal(changeText(changeBefore(view.budgets, second!.time)!),
                 '24.0 MiB → 56.0 MiB, follow');
    assert.equal(
        memoryScale([view]).top,
        1.03 * Math.max(56 * fixtures.kMiB, ...view.memory.total));
    assert.equal(budgetAt({...view, budgets: []}, 0), 48 * fixtures.kMiB);
    assert.throws(
        () => read({...fixtures.makeResized(), budgets: {time: [2, 1]}}),
        /budgets\.time goes back/);
  });
});

describe('View', () => {
  it('is read with all that it says', () => {
    const json = fixtures.makeView();
    const view = read(json);
    assert.equal(view.spans.count, json.spans.start.length);
    assert.equal(view.memory.total.length, json.memory.time.length);
    assert.equal(Math.max(...view.memory.total), json.peak.bytes);
    assert.equal(view.tables.operators.rows, json.tables.operators.name.length);
    assert.equal(view.summary!.stepNs, json.summary.step_ns);
    assert.equal(view.plans[0]!.plannedAddresses, true);
    assert.equal(view.plans[0]!.predicted.moves, 0);
    assert.deepEqual(view.plans[0]!.activationBytes,
                     json.plans[0].activation_bytes);
    assert.equal(view.programs[0]!.ops[4]!.keptBytes, 4 * 1048576);
    assert.equal(view.programs[0]!.chunks[0]!.block, -1);
    assert.equal(view.tables.blocks.rows, 6);
    assert.equal(view.summary!.hostBytes, 4 * 1048576);
  });

  it('may not know addresses, moves and blocks', () => {
    const json = fixtures.makeView();
    const without = ({planned_addresses, ...rest}: any) => rest;
    const view = read({
      ...json, plans: json.plans.map(without), summary: without(json.summary),
      tables: {...json.tables, blocks: undefined},
    });
    assert.equal(view.plans[0]!.plannedAddresses, null);
    assert.equal(view.summary!.plannedAddresses, null);
    assert.equal(view.tables.blocks.rows, 0);
  });

  it('may lack all that is optional', () => {
    const view = read({
      ...fixtures.makeView(), run: null, summary: null, peak: null,
      refusal: null, results: undefined, predicted_memory: undefined,
      host_memory: undefined, tables: undefined,
    });
    assert.equal(view.summary, null);
    assert.equal(view.tables.waits.rows, 0);
    assert.equal(view.predictedMemory.time.length, 0);
    assert.equal(read({version: 1}).spans.count, 0);
  });

  it('is refused with the path of what is wrong', () => {
    const wrong = (change: (view: any) => void, message: RegExp) => {
      const view = fixtures.makeView();
      change(view);
      assert.throws(() => read(view), (error) => error instanceof DataError &&
                        message.test(error.message));
    };
    wrong((v) => v.version = 7, /version 7; this page reads 1/);
    wrong((v) => v.spans.end.pop(), /spans\.end has \d+ entries, not \d+/);
    wrong((v) => v.spans.start = 'x', /spans\.start is not a list/);
    wrong((v) => v.spans.bytes[3] = '9', /spans\.bytes is not a list of numb/);
    wrong((v) => v.spans.start[5] = 1e12, /spans\.start is not ascending/);
    wrong((v) => v.memory.bytes[2] = {}, /memory\.bytes\[2\] is not a list/);
    wrong((v) => v.memory.bytes[2].pop(), /memory\.bytes\[2\] has/);
    wrong((v) => v.steps[1] = 3, /steps\[1\] is not an object/);
    wrong((v) => v.run.title = [], /run\.title is not a string/);
    wrong((v) => v.tables.waits.count.pop(), /tables\.waits/);
    assert.throws(() => parse('{"views": ['), /the data is not JSON/);
    assert.throws(() => parse('{"views": []}'), /0 views/);
    assert.throws(() => parse('[]'), /the data is not an object/);
  });

  it('drops indices of nothing and shortens endless names', () => {
    const view = read(fixtures.makeHostile());
    assert.equal(view.spans.cause[3], -1);
    assert.equal(view.spans.label[6], -1);
    assert.ok(view.strings[0]!.length <= 4001);
    const model = new Model(view);
    assert.equal(typeof model.label(6), 'string');
    assert.equal(model.chunkCount, 7);
  });
});

describe('Model', () => {
  const view = fixtures.makeView();
  const model = new Model(read(view));

  it('has a lane per stream with all of its work', () => {
    assert.deepEqual(
        model.lanes.map((lane) => lane.items.length),
        [0, 1, 2, 3].map(
            (lane) => view.spans.stream.filter((s: number) => s === lane)
                          .length));
  });

  it('knows when a chunk is needed next', () => {
    // Chunk 3 is first used by layer 2, after the embedding and two layers.
    const first = view.steps[1].start_ns;
    const next = model.nextUse(3, first + 1)!;
    assert.equal(next.op.name, 'transformer.h.2.ln_1/forward');
    // The step begins with a wait: none of its operators has started.
    assert.equal(next.ahead, 18);
    assert.equal(view.spans.moment[next.span], 17);
    assert.ok(view.spans.start[next.span] > first);
  });

  it('finds a use in the next step after the last of this one', () => {
    const last = view.steps[0].end_ns - 1;
    const next = model.nextUse(6, last)!;
    assert.equal(next.op.name, 'transformer.h.5.ln_1/forward');
    assert.equal(view.spans.step[next.span], 1);
  });

  it('names the steps of a range', () => {
    const {home} = model;
    const {steps} = model.data;
    const name = (start: number, end: number) => model.rangeName({start, end});
    assert.equal(name(model.extent.start, model.extent.end), 'whole trace');
    assert.match(name(home.start, home.end), /^step \d \(typical\)$/);
    const other = steps.find((step) => step.start !== home.start)!;
    assert.equal(name(other.start, other.end), `step ${other.step}`);
    assert.equal(name(other.start, (other.start + other.end) / 2),
                 `part of step ${other.step}`);
    assert.equal(name(steps[1]!.start, steps[3]!.end), 'step 4 to step 6');
    assert.equal(name(-9, -5), 'between steps');
  });

  it('opens on all where no step is typical', () => {
    const {home, extent} =
        new Model(read({...fixtures.makeView(), summary: null}));
    assert.deepEqual(home, extent);
  });

  it('knows the state of a chunk at a time', () => {
    const i = view.spans.kind.findIndex(
        (kind: number, at: number) => kind === 2 && view.spans.chunk[at] === 2);
    const middle = (view.spans.start[i] + view.spans.end[i]) / 2;
    const interval = model.residencyAt(2, middle);
    assert.equal(view.residency.state[interval], 0);
    assert.equal(view.residency.start[interval], view.spans.start[i]);
    assert.equal(model.residencyAt(2, -5), -1);
  });
});

describe('Search', () => {
  const view = fixtures.makeView();
  const model = new Model(read(view));

  it('finds operators by all words of the query', () => {
    const hits = search(model, 'ATTN.C_attn  h.2.');
    const operators = hits.matches.filter((m) => m.kind === 'operator');
    assert.deepEqual(operators.map((m) => m.name), [
      'transformer.h.2.attn.c_attn/forward',
      'transformer.h.2.attn.c_attn/backward',
    ]);
    for (const span of hits.spans) {
      assert.ok(/h\.2\.attn\.c_attn/.test(model.label(span)) ||
                view.spans.chunk[span] === 3);
    }
    // Each step has 2 operators, 2 fetches (1 in later forwards), a copy, ...
    assert.equal([...hits.spans].filter(
        (s) => view.spans.kind[s] === 1).length, 8);
  });

  it('finds the chunk of a parameter and all that moves it', () => {
    const hits = search(model, 'transformer.h.0.mlp.c_fc.weight');
    assert.deepEqual([...hits.chunks], [1]);
    assert.equal(hits.matches.length, 1);
    const kinds = new Set([...hits.spans].map((s) => model.kindName(s)));
    assert.deepEqual([...kinds].sort(),
                     ['copy_back', 'fetch', 'reduce', 'update']);
  });

  it('takes a star for a part of a name', () => {
    const names = (query: string) =>
        search(model, query).matches.map((m) => m.name);
    const mlp = names('transformer.h.*.mlp.c_fc/forward');
    assert.equal(mlp.length, 6);
    assert.ok(mlp.every((name) => /^transformer\.h\.\d\.mlp\.c_fc\/forward$/
                                     .test(name)));
    // Nothing else in it means anything, and a star is no dot.
    assert.deepEqual(names('h.*.c_fc/forward'), []);
    assert.deepEqual(names('h.*(.mlp'), []);
    assert.equal(names('reduce* *').length, 7);
  });

  it('finds nothing for nothing', () => {
    assert.equal(search(model, '   ').spans.length, 0);
    assert.equal(search(model, 'no such name').matches.length, 0);
  });

  it('goes round from hit to hit', () => {
    const hits = search(model, 'lm_head/forward');
    assert.equal(hits.spans.length, 4);
    const [first, second, , last] = hits.spans;
    assert.equal(nextHit(hits, model, -1, 0, false), first);
    assert.equal(nextHit(hits, model, first!, 0, false), second);
    assert.equal(nextHit(hits, model, last!, 0, false), first);
    assert.equal(nextHit(hits, model, first!, 0, true), last);
    const from = view.steps[1].start_ns;
    assert.equal(nextHit(hits, model, -1, from, false), second);
  });
});

describe('Sort', () => {
  const table: Table = {
    rows: 4, columns: {n: [3, NaN, 1, 3], s: ['h.10', 'h.9', 'b', 'a']},
  };

  it('orders numbers by size and keeps equal rows in place', () => {
    assert.deepEqual([...sortRows(table, 'n', false)], [2, 0, 3, 1]);
    assert.deepEqual([...sortRows(table, 'n', true)], [0, 3, 2, 1]);
  });

  it('orders names by the numbers in them', () => {
    assert.deepEqual([...sortRows(table, 's', false)], [3, 2, 1, 0]);
  });

  it('leaves out rows and does not mind unknown columns', () => {
    assert.deepEqual([...sortRows(table, 'x', true, (row) => row !== 1)],
                     [0, 2, 3]);
  });
});

describe('Link', () => {
  const round = (change: Partial<State>) => {
    const state = {...initialState(), ...change};
    assert.deepEqual(decodeState('#' + encodeState(state)), state);
  };

  it('holds all that is shown', () => {
    assert.equal(encodeState(initialState()), '');
    round({range: {start: -5, end: 123456789012345}});
    round({range: 'all'});
    round({selection: {kind: 'span', view: 1, index: 99999}});
    round({selection: {kind: 'chunk', view: 0, chunk: 7, time: 42}});
    round({selection: {kind: 'memory', view: 0, index: 3}});
    round({tab: 'waits', theme: 'dark', query: 'a&b=c #ü',
           sort: {column: 'total_ns', descending: true}});
  });

  it('leaves out what it does not understand', () => {
    for (const bad of ['#t=1', '#t=9~3', '#sel=span.0', '#sel=span.0.1.2',
                       '#sel=chunk.0.1', '#tab=../x', '#theme=red',
                       '#q=%E0%A4%A', '#=&&&', '#sel=span.-1.4', '#t=1e9~2e9',
                       `#t=${'9'.repeat(400)}~1`]) {
      assert.deepEqual(decodeState(bad), initialState(), bad);
    }
  });
});

describe('Ticks', () => {
  it('are round times in one unit', () => {
    const {ticks, base} = timeTicks(0, 100e6, 5);
    assert.deepEqual(ticks.map((t) => t.label),
                     ['0 ms', '20 ms', '40 ms', '60 ms', '80 ms', '100 ms']);
    assert.equal(base, '');
  });

  it('count from a base where all digits would be the same', () => {
    const {ticks, base} = timeTicks(5e9, 5e9 + 1000, 5);
    assert.equal(base, '5 s');
    assert.deepEqual(ticks.map((t) => t.label), [
      '+0.0 µs', '+0.2 µs', '+0.4 µs', '+0.6 µs', '+0.8 µs', '+1.0 µs',
    ]);
    assert.equal(exactTime(1_234_567), '1.234567 ms');
  });

  it('are round sizes in binary units', () => {
    assert.deepEqual(byteTicks(48 * 1048576, 4).map((t) => t.label),
                     ['16 MiB', '32 MiB', '48 MiB']);
    assert.deepEqual(byteTicks(0, 4), []);
    assert.deepEqual(byteTicks(NaN, 4), []);
  });
});

describe('Ranks', () => {
  const data = fixtures.makeRanks();

  it('are read one at a time, and named all', () => {
    const second = parseLoaded(data, 1);
    assert.deepEqual(second.ranks.map(({rank, host}) => [rank, host]),
                     [[0, 'node-a'], [1, 'node-a'], [2, 'node-b']]);
    assert.equal(second.views.length, 1);
    const view = second.views[0]!;
    assert.equal(view.run!.rank, 1);
    assert.equal(view.run!.worldSize, 3);
    assert.equal(view.steps.length, 4);
    assert.equal(view.steps[0]!.lateNs, 2_000_000);
    assert.equal(view.tables.steps.columns['sent_bytes']![0], 8192);
    const {lateRank, kind} = view.spans;
    const late = lateRank.indexOf(2);
    assert.ok(late >= 0);
    assert.equal(kind[late], -1);
    // One that is not there: the first.
    assert.equal(parseLoaded(data, 9).views[0]!.run!.rank, 0);
  });

  it('are in the link', () => {
    const state: State = {...initialState(), rank: 2};
    assert.equal(encodeState(state), 'rank=2');
    assert.deepEqual(decodeState('#rank=2'), state);
    assert.equal(decodeState('#rank=-1').rank, 0);
    assert.equal(decodeState('#rank=x').rank, 0);
  });

  it('are none where one rank ran', () => {
    const loaded = parseLoaded({views: [fixtures.makeView()]});
    assert.deepEqual(loaded.ranks, []);
    assert.equal(loaded.views[0]!.run!.worldSize, 1);
    assert.equal(loaded.views[0]!.spans.lateRank[0], -1);
  });
});
