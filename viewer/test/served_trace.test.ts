// From a run to the page: traces of real runs are exported by the program and
// opened in a browser, and what the page shows is compared with the trace's own
// lines, read here once more and independently.
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {mkdtempSync, readFileSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, before, describe, it} from 'node:test';
import {pathToFileURL} from 'node:url';

import {formatBytes} from '../src/format';
import {
  close, type Opened, openUrl, places, settle, shown, startBrowser, stopBrowser,
  tableRows, textOf,
} from './harness';

const castor = process.env['CASTOR']!;
const folder = mkdtempSync(
    join(process.env['VIEWER_TEST_TMP'] ?? tmpdir(), 'traces-'));
const at = (name: string) => join(folder, name);

const config = {
  model: {
    type: 'gpt2', n_layer: 3, n_head: 2, n_embd: 32, n_positions: 32,
    vocab_size: 128,
  },
  data: {train: 'text.txt', sequence_length: 32, validation_fraction: 0.2},
  steps: 6, seed: 7, eval_interval: 100,
  train_micro_batch_size_per_gpu: 2, gradient_accumulation_steps: 2,
  optimizer: {type: 'AdamW', params: {lr: 1e-3}},
  device: {type: 'host', threads: 1},
  memory: {placement_policy: 'cpu', device_memory: '4MiB'},
};

function run(status: number, ...args: string[]): void {
  const result = spawnSync(castor, args, {cwd: folder, encoding: 'utf8'});
  assert.equal(result.status, status, result.stderr);
}

/** The lines of a trace that are lists, by their first word. */
function linesOf(text: string, word: string): any[][] {
  return text.split('\n').filter((line) => line.startsWith(`["${word}"`))
      .map((line) => JSON.parse(line));
}

/** Exports a trace and opens its page. */
async function page(trace: string, hash = ''): Promise<Opened> {
  run(0, 'trace', 'export', trace, `${trace}.html`);
  const opened =
      await openUrl(pathToFileURL(at(`${trace}.html`)).href, {hash});
  await opened.page.waitForFunction(
      () => window.castorViewer || document.querySelector('.failure'));
  await settle(opened.page);
  assert.equal(await textOf(opened.page, '.failure'), '');
  return opened;
}

/** How many pieces of work and how many waits the page holds. */
function counts({page}: Opened): Promise<{work: number, waits: number}> {
  return page.evaluate(() => {
    const {kind} = window.castorViewer!.models[0]!.data.spans;
    const waits = kind.filter((k) => k < 0).length;
    return {work: kind.length - waits, waits};
  });
}

let text = '';

before(async () => {
  writeFileSync(at('text.txt'), 'and the earth was without form, and void; '
      .repeat(200));
  writeFileSync(at('run.json'), JSON.stringify(config));
  run(0, 'train', 'run.json', '--trace', 'run.trace');
  text = readFileSync(at('run.trace'), 'utf8');
  await startBrowser();
});
after(stopBrowser);

describe('The page of a run', () => {
  it('holds all of its work and its peak to the byte', async () => {
    const opened = await page('run.trace');
    const ops = linesOf(text, 'op');
    const {work, waits} = await counts(opened);
    assert.equal(work, linesOf(text, 'work').length);
    assert.ok(waits > 0 && waits <= linesOf(text, 'wait').length);
    const peak = Math.max(...ops.map((op) => op[4]));
    await opened.page.keyboard.press('p');
    await settle(opened.page);
    const details = await textOf(opened.page, '.details');
    assert.ok(details.includes(formatBytes(peak)), details);
    const shownPeak = await opened.page.evaluate(
        () => window.castorViewer!.models[0]!.data.peak!.bytes);
    assert.equal(shownPeak, peak);
    // The bytes by category are those that the trace has for that operator.
    const at = ops.find((op) => op[4] === peak)!;
    for (const bytes of at.slice(5)) {
      assert.ok(details.includes(formatBytes(bytes)), formatBytes(bytes));
    }
    const summary = await textOf(opened.page, '.summary');
    assert.ok(summary.includes(formatBytes(peak)));
    assert.ok(summary.includes('of 4.00 MiB'));
    await close(opened);
  });

  it('sums operators up by module, with their operations', async () => {
    const opened = await page('run.trace');
    const modules = await opened.page.evaluate(
        () => window.castorViewer!.models[0]!.data.tables.modules);
    const row = (modules.columns['pattern'] as string[]).findIndex(
        (name, i) => name === 'transformer.h.*.mlp.c_fc/forward' &&
            (modules.columns['phase'] as string[])[i] === 'forward');
    const value = (key: string) =>
        (modules.columns[key] as ArrayLike<number>)[row]!;
    // Its runs are pieces of work at its moments, in the steps of its trace.
    const objects = text.split('\n').filter((line) => line.startsWith('{'))
                        .map((line) => JSON.parse(line));
    const plans = objects.filter((o) => o.type === 'plan');
    const shapes = objects.filter((o) => o.type === 'step_trace');
    const steps = new Map(objects.filter((o) => o.type === 'step').map(
        (o) => [o.tag, shapes[plans[o.plan].trace]]));
    const runs = linesOf(text, 'work').filter((work) => {
      const op = steps.get(work[4])?.ops[work[5]];
      return work[3] === 1 && op?.phase === 'forward' &&
          /h\.\d\.mlp\.c_fc\/forward$/.test(op.name) &&
          steps.get(work[4])!.training;
    });
    assert.ok(runs.length > 0);
    assert.equal(value('count'), runs.length);
    assert.equal(value('total_ns'),
                 runs.reduce((sum, work) => sum + work[8] - work[7], 0));
    // 2 samples of 32 tokens, from 32 to 128 channels.
    assert.equal(value('flops'), runs.length * 2 * (2 * 32) * 32 * 128);
    await close(opened);
  });

  it('lays the plan over the operators, and names pauses', async () => {
    const opened = await page('run.trace');
    const {planned, starts, pauses} = await opened.page.evaluate(() => {
      const model = window.castorViewer!.models[0]!;
      const {spans, predictedMemory, steps} = model.data;
      const all = [...spans.start.keys()];
      return {
        planned: [...predictedMemory.time],
        starts: all.filter((i) => spans.stream[i] === 0 &&
            !model.isWait(i)).map((i) => spans.start[i]!)
            .concat(steps.map((step) => step.start)),
        pauses: all.filter((i) => model.isPause(i)).map(
            (i) => model.label(i)),
      };
    });
    assert.ok(planned.length > 100);
    const known = new Set(starts);
    assert.ok(planned.every((time) => known.has(time)));
    // The settled plan is made within the traced steps.
    assert.ok(pauses.includes('planning'), String(pauses));
    await close(opened);
  });

  it('counts each chunk\'s fetches and bytes', async () => {
    const opened = await page('run.trace', 'tab=chunks');
    const fetches = linesOf(text, 'work').filter((work) => work[3] === 2);
    assert.ok(fetches.length > 0);
    const rows = await tableRows(opened.page);
    for (const row of rows) {
      const own = fetches.filter((work) => work[6] === Number(row[0]));
      assert.equal(row[5], String(own.length), `chunk ${row[0]}`);
    }
    await close(opened);
  });

  it('finds an operator and shows it where it ran', async () => {
    const opened = await page('run.trace');
    await opened.page.getByRole('searchbox').fill('h.1.mlp.c_fc/forward');
    await opened.page.keyboard.press('Enter');
    const {selection, start, end} = await shown(opened.page);
    const {index} = selection as {index: number};
    const ran = await opened.page.evaluate((i) => {
      const {spans} = window.castorViewer!.models[0]!.data;
      return [spans.start[i]!, spans.end[i]!];
    }, index);
    assert.ok(linesOf(text, 'work').some(
        (work) => work[7] === ran[0] && work[8] === ran[1]));
    assert.ok(start <= ran[0]! && ran[1]! <= end);
    assert.ok((await textOf(opened.page, '.details')).includes('->'),
              'shapes');
    await close(opened);
  });
});

describe('The page of an odd trace', () => {
  it('says why a run was refused', async () => {
    run(2, 'train', 'run.json', '--trace', 'refused.trace', '--set',
        'memory.device_memory=16KiB');
    const refusal = JSON.parse(readFileSync(at('refused.trace'), 'utf8')
        .split('\n').find((line) => line.startsWith('{"type":"refusal"'))!);
    const opened = await page('refused.trace');
    const said = await textOf(opened.page, '.refusal');
    assert.ok(said.includes(refusal.message));
    assert.ok(said.includes(refusal.op));
    assert.ok(said.includes(formatBytes(refusal.peak_bytes)));
    assert.ok(said.includes(
        formatBytes(refusal.smallest_device_budget_bytes)));
    await close(opened);
  });

  it('shows what came before it was cut off', async () => {
    // The file is cut within a line, a little behind its half.
    const line = text.lastIndexOf('\n', Math.floor(text.length * 0.7)) + 1;
    const cut = text.slice(0, line + 10);
    writeFileSync(at('cut.trace'), cut);
    const opened = await page('cut.trace');
    assert.ok((await textOf(opened.page, '.banner')).includes('cut off'));
    const whole = cut.slice(0, cut.lastIndexOf('\n'));
    assert.equal((await counts(opened)).work, linesOf(whole, 'work').length);
    await close(opened);
  });

  it('says that an empty one holds nothing', async () => {
    writeFileSync(at('empty.trace'), text.split('\n')[0] + '\n');
    const opened = await page('empty.trace');
    assert.ok((await textOf(opened.page, '.nothing')).includes('empty.trace'));
    await close(opened);
  });

  it('shows hostile names as text', async () => {
    const evil = '</script><img src=x onerror=window.hacked=1>';
    writeFileSync(at('hostile.trace'),
                  text.replaceAll('transformer.h.1', evil)
                      .replace('"title":"', `"title":"${evil}`));
    const opened = await page('hostile.trace', 'q=img&tab=operators');
    assert.ok((await textOf(opened.page, '.about')).includes(evil));
    assert.ok((await shown(opened.page)).hits[0]! > 0);
    assert.ok((await tableRows(opened.page)).every(
        (row) => row[1]!.includes('<img')));
    await opened.page.keyboard.press('p');
    assert.equal(
        await opened.page.evaluate(() => (window as any).hacked), undefined);
    assert.equal(await opened.page.locator('img').count(), 0);
    await close(opened);
  });

  it('of 100,000 events is drawn, zoomed and searched', async () => {
    run(0, 'train', 'run.json', '--trace', 'long.trace', '--trace-steps',
        '1:200', '--set', 'steps=200');
    const long = readFileSync(at('long.trace'), 'utf8');
    const opened = await page('long.trace');
    const {work, waits} = await counts(opened);
    assert.equal(work, linesOf(long, 'work').length);
    assert.ok(work + waits >= 100_000, `${work + waits} events`);
    const before = await shown(opened.page);
    const box = await places(opened.page);
    await opened.page.mouse.move(box.left + 300, box.top + 40);
    await opened.page.mouse.wheel(0, -200);
    await settle(opened.page);
    const after = await shown(opened.page);
    const factor = (after.end - after.start) / (before.end - before.start);
    assert.ok(Math.abs(factor - Math.exp(-0.4)) < 0.01, String(factor));
    await opened.page.getByRole('searchbox').fill('h.1.mlp.c_fc/forward');
    const hits = await opened.page.evaluate(() => {
      const app = window.castorViewer!;
      return [...app.hits[0]!.spans].filter(
          (span) => app.model.kindName(span) === 'operator').length;
    });
    // Two micro batches a step, one a step of evaluation.
    const evaluations = long.split('\n').filter(
        (line) => /^\{"type":"step",.*"step":0[,}]/.test(line)).length;
    assert.equal(hits, 2 * 200 + evaluations);
    await close(opened);
  });
});

describe('The page of a run on two ranks', () => {
  it('shows each rank by its own lines, on one clock', async () => {
    run(0, 'launch', '--nproc', '2', 'run.json', '--trace', 'ranks.trace');
    const merged = readFileSync(at('ranks.trace'), 'utf8');
    const parts = merged.split(/^(?=\{"format")/m);
    assert.equal(parts.length, 2);
    for (const [rank, part] of parts.entries()) {
      const opened = await page('ranks.trace', rank > 0 ? `rank=${rank}` : '');
      const works = linesOf(part, 'work');
      const networks = linesOf(part, 'network');
      assert.ok(networks.length > 0);
      const {work} = await counts(opened);
      assert.equal(work, works.length);
      const seen = await opened.page.evaluate(() => {
        const {run, spans, kinds, streams} = window.castorViewer!.models[0]!
            .data;
        const lanes = streams.map((stream) => stream.name);
        return {
          rank: run!.rank, error: run!.clockErrorNs,
          kinds: [...spans.kind].filter(
              (kind, i) => kind >= 0 &&
                  lanes[spans.stream[i]!] === 'network')
              .map((kind) => kinds[kind]!.name),
          late: [...spans.lateRank].filter((late) => late >= 0).length,
          start: Math.min(...spans.start),
        };
      });
      assert.equal(seen.rank, rank);
      assert.equal(seen.kinds.length, networks.length);
      const named = new Set(seen.kinds);
      assert.ok(named.has('gather') && named.has('exchange'));
      // Ranks that came late, as the lines have it: who, and for how long.
      const startOf = new Map(
          works.map((line) => [`${line[1]} ${line[2]}`, line[7]]));
      const late = networks.filter(
          (line) => line[5] !== rank &&
              line[6] > startOf.get(`${line[1]} ${line[2]}`)!);
      assert.equal(seen.late, late.length);
      // Times have moved by what the clocks say.
      const clocks = part.split('\n').filter(
          (line) => line.startsWith('{"type":"clock"'))
          .map((line) => JSON.parse(line));
      assert.equal(clocks.length, 2);
      assert.equal(seen.error,
                   Math.max(...clocks.map((clock) => clock.error_ns)));
      const first = Math.min(...works.concat(linesOf(part, 'wait')).map(
          (line) => line[7]));
      const offsets = clocks.map((clock) => clock.offset_ns);
      assert.ok(seen.start - first >= Math.min(...offsets) - 1);
      assert.ok(seen.start - first <= Math.max(...offsets) + 1);
      await close(opened);
    }
  });
});
