// The viewer in a real browser: what it draws and says is compared with the
// numbers of the view that it was given.
import assert from 'node:assert/strict';
import {after, before, describe, it} from 'node:test';

import {formatBytes, formatCount, formatTime} from '../src/format';
import * as fixtures from './fixtures';
import {
  close, color, ofAll, open, type Opened, pixels, places, settle, shown, startBrowser,
  stopBrowser, tableRows, textOf,
} from './harness';

before(startBrowser);
after(stopBrowser);

/** Opens, tries, and sees to it that nothing failed meanwhile. */
async function using(
    data: unknown, hash: string, then: (opened: Opened) => Promise<void>,
    scheme: 'light'|'dark' = 'light'): Promise<void> {
  const opened = await open(data, {hash: ofAll(hash), scheme});
  await then(opened);
  await close(opened);
}

const view = fixtures.makeView();
const normal = {views: [view]};
const sum = (numbers: number[]) => numbers.reduce((a, b) => a + b, 0);

/** Spans of the view that fit. */
function spansWhere(test: (i: number) => boolean): number[] {
  return [...view.spans.start.keys()].filter(test);
}

describe('Pictures', () => {
  it('show the whole trace', () => using(normal, '', async ({page}) => {
       const {start, end} = await shown(page);
       assert.equal(start, view.steps[0].start_ns);
       assert.equal(end, view.steps[3].end_ns);
     }));

  it('stack memory as high as its bytes, by category', () => using(
       normal, `t=${view.peak.time - 100_000}~${view.peak.time + 100_000}`,
       async ({page}) => {
         const at = await places(page);
         // Right of the peak's mark, where its point still holds.
         const x = 124 + at.width * 0.9;
         const column = await pixels(page, x, at.memory.y, 1, at.memory.height);
         const scale = at.memoryTop / at.memory.height;
         const height = async (category: number) => {
           const wanted = await color(page, `category-${category}`);
           return column.filter((c) => c === wanted).length * scale;
         };
         for (const category of [0, 2, 3]) {
           const bytes = view.peak.by_category[category];
           // A pixel at either edge, and three of the plan's line on top.
           const loose = (category === 3 ? 5 : 2) * scale;
           assert.ok(Math.abs(await height(category) - bytes) <= loose,
                     `category ${category}: ${await height(category)}, not ${
                         bytes}`);
         }
         const budget = await color(page, 'budget');
         const line = await pixels(page, 124, at.memory.y, 300,
                                   at.memory.height);
         const y = Math.floor(line.indexOf(budget) / 300);
         const bytes = (at.memory.height - y) * scale;
         assert.ok(Math.abs(bytes - view.run.device_budget_bytes) <= 2 * scale,
                   `the budget's line is at ${bytes}`);
       }));

  it('show the budget of each moment, and where it changed', () => {
    const resized = fixtures.makeResized();
    const {time, from, to} = resized.budgets;
    const around = 200_000;
    return using({views: [resized]}, `t=${time[0] - around}~${
        time[0] + around}`, async ({page}) => {
      const at = await places(page);
      const scale = at.memoryTop / at.memory.height;
      const budget = await color(page, 'budget');
      // Left of the change, at it, and far enough right of it that no text is
      // there.
      const heights = async (x: number) => {
        const column = await pixels(page, 124 + x, at.memory.y + 17, 8,
                                    at.memory.height - 17);
        const rows = column.map((c, i) => c === budget ? Math.floor(i / 8) : -1)
                         .filter((y) => y >= 0);
        return rows.map((y) => (at.memory.height - 17 - y) * scale);
      };
      const near = (a: number, b: number) => Math.abs(a - b) <= 3 * scale;
      const before = await heights(at.width * 0.2);
      assert.ok(before.length > 0 && before.every((h) => near(h, from[0])),
                `before: ${before}`);
      const after = await heights(at.width * 0.95);
      assert.ok(after.length > 0 && after.every((h) => near(h, to[0])),
                `after: ${after}`);
      const change = await heights(at.width / 2 - 4);
      assert.ok(change.some((h) => near(h, from[0])) &&
                change.some((h) => near(h, to[0])) &&
                change.some((h) => near(h, (from[0] + to[0]) / 2)));
    });
  });

  it('show a wait of the compute lane where it was', () => {
    const i = view.tables.waits.longest_span[1];
    const start = view.spans.start[i];
    const end = view.spans.end[i];
    const span = end - start;
    return using(normal, `t=${start - span}~${end + span}`, async ({page}) => {
      const at = await places(page);
      // Below the name, whose letters are in other colours.
      const row = await pixels(
          page, 124, at.lanes.y + at.lanes.height / 4 - 6, at.width, 1);
      const ground = await color(page, 'forward');
      const other = await color(page, 'backward');
      const faint = await color(page, 'faint');
      const striped = row.map((c, x) => c !== ground && c !== other &&
                                  c !== faint ? x : -1);
      const inside = striped.filter(
          (x) => x > at.width / 3 + 1 && x < 2 * at.width / 3 - 2);
      assert.ok(inside.length >= at.width / 3 - 5,
                `${inside.length} of ${at.width / 3} pixels`);
    });
  });

  it('draw a bar for each fetch of a step', () => {
    const [first] = view.steps;
    // The next step's first fetch begins before its first operator.
    const fetches = spansWhere((i) => view.spans.kind[i] === 2 &&
        view.spans.start[i] < first.end_ns);
    return using(
        normal, `t=${first.start_ns}~${first.end_ns}`, async ({page}) => {
          const at = await places(page);
          const y = at.lanes.y + at.lanes.height / 4 + 4;
          const row = await pixels(page, 124, y, at.width, 1);
          const wanted = await color(page, 'fetch');
          const bars = row.filter((c, x) => c === wanted &&
              row[x - 1] !== wanted).length;
          const width = row.filter((c) => c === wanted).length / at.width *
              (first.end_ns - first.start_ns);
          const total = sum(fetches.map(
              (i) => Math.min(view.spans.end[i], first.end_ns) -
                  view.spans.start[i]));
          assert.equal(bars, fetches.length);
          // A gap tells neighbours apart, and edges fall between pixels.
          const pixel = (first.end_ns - first.start_ns) / at.width;
          assert.ok(Math.abs(width - total) <= 2 * pixel * bars,
                    `${width} of ${total}`);
        });
  });

  it('give each chunk a row with its states', () => using(
       normal, '', async ({page}) => {
         const at = await places(page);
         const names = view.states.map((s: any) => s.name);
         const arriving = await color(page, 'state-arriving');
         // Chunk 6 is fetched once a step: the others' rows show two.
         const rows = await Promise.all([1, 6].map(async (chunk) => {
           const height = Math.floor(Math.min(22, at.residency.height / 7));
           const row = await pixels(
               page, 124, at.residency.y + chunk * height + 4, at.width, 1);
           return row.filter((c, x) => c === arriving &&
               row[x - 1] !== arriving).length;
         }));
         const intervals = (chunk: number) => view.residency.chunk.filter(
             (c: number, i: number) => c === chunk &&
                 names[view.residency.state[i]] === 'arriving').length;
         assert.deepEqual(rows, [intervals(1), intervals(6)]);
       }));
});

describe('Summary', () => {
  it('says where the step went, and bytes against their bound', () => using(
       normal, '', async ({page}) => {
         const text = await textOf(page, '.summary');
         const s = view.summary;
         for (const ns of [s.step_ns, s.compute_ns, s.copy_ns, s.optimizer_ns,
                           s.predicted_step_ns]) {
           assert.ok(text.includes(formatTime(ns)), formatTime(ns));
         }
         assert.ok(text.includes(formatBytes(s.h2d_bytes)));
         assert.ok(text.includes(formatBytes(s.least_h2d_bytes)));
         const factor = (s.h2d_bytes / s.least_h2d_bytes).toFixed(2);
         assert.ok(text.includes(`${factor} × the least`));
         assert.ok(text.includes(formatBytes(s.device_peak_bytes)));
         assert.ok(text.includes('of 48.0 MiB'));
         assert.ok(text.includes(s.advice[0]));
         const [compute, copies] = await page.locator('.split').first()
             .locator('.part').evaluateAll((parts) => parts.map(
                 (p) => p.clientWidth / p.parentElement!.clientWidth));
         assert.ok(Math.abs(compute! - s.compute_ns / s.step_ns) < 0.01);
         assert.ok(Math.abs(copies! - s.copy_ns / s.step_ns) < 0.01);
       }));

  it('says where blocks lie and what becomes of their activations', () => using(
       normal, '', async ({page}) => {
         const text = await textOf(page, '.summary');
         assert.match(text, /addresses\s*planned\s*the same in every step/);
         assert.match(text, /moved blocks\s*0/);
         assert.match(text, /blocks kept\s*2 of 6\s*4.00 MiB/);
         assert.match(text, /by the host\s*2 of 6\s*4.00 MiB/);
         assert.match(text, /made again\s*2 of 6\s*spares 4.00 MiB/);
         await page.keyboard.press('6');
         const rows = await tableRows(page);
         assert.equal(rows.length, 6);
         assert.deepEqual(
             rows[1]!.slice(2),
             ['by way of the host', '–', '2.00 MiB', '–', '1.00 ms', '6.00 MiB',
              '6.00 MiB', '40.0 µs']);
         // A row leads to the block's first operator.
         await page.locator('.row').nth(2).click();
         assert.match(await textOf(page, '.card'), /h\.2\.ln_1\/forward/);
       }));

  it('says how often blocks are moved where they have no addresses', () =>
     using({views: [fixtures.makeMoving()]}, '', async ({page}) => {
       const text = await textOf(page, '.summary');
       assert.match(text, /addresses\s*not planned/);
       assert.match(text, /moved blocks\s*4\s*70.0 µs a step; foreseen: 3 of 1.50 MiB/);
       assert.doesNotMatch(text, /blocks kept/);
     }));

  it('says why a run was refused, and what would do', () => {
    const refused = fixtures.makeRefused();
    return using({views: [refused]}, '', async ({page}) => {
      const text = await textOf(page, '.refusal');
      assert.ok(text.includes(refused.refusal.message));
      assert.ok(text.includes(refused.refusal.op));
      assert.ok(text.includes('9.50 MiB'));
      assert.ok(text.includes(formatCount(9961472)));
      assert.ok(text.includes('none would do'));
      assert.equal(await page.locator('.timeline').count(), 0);
      // Operators by what they need, the most first.
      const [first] = await tableRows(page);
      assert.ok(first!.includes('6.00 MiB'), String(first));
    });
  });

  it('says that an empty trace holds nothing', () => {
    const empty = fixtures.makeEmpty();
    return using({views: [empty]}, '', async ({page}) => {
      const text = await textOf(page, '.nothing');
      assert.ok(text.includes('empty.trace holds no steps'));
      assert.ok(text.includes(empty.message));
      await page.keyboard.press('d');
      await page.keyboard.press('p');
      await page.keyboard.press('j');
    });
  });

  it('says that a trace is cut off, and shows what there is', () => {
    const cut = fixtures.makeTruncated();
    return using({views: [cut]}, 'tab=steps', async ({page}) => {
      const banner = await textOf(page, '.banner');
      assert.ok(banner.includes(cut.message));
      assert.equal((await tableRows(page)).length, 3);
      assert.equal((await shown(page)).end, cut.steps[2].end_ns);
    });
  });

  it('does without all that is optional', () => using(
       {views: [{...view, run: null, summary: null, peak: null}]}, '',
       async ({page}) => {
         assert.equal(await page.locator('.summary').count(), 0);
         await page.keyboard.press('p');
         assert.equal((await shown(page)).selection, null);
       }));
});

describe('Details', () => {
  it('of a wait say its cause, and lead there', () => {
    const i = view.tables.waits.longest_span[1];
    const cause = view.spans.cause[i];
    return using(normal, '', async ({page}) => {
      const at = await places(page);
      const middle = (view.spans.start[i] + view.spans.end[i]) / 2;
      const {start, end} = await shown(page);
      const x = at.left + (middle - start) / (end - start) * at.width;
      const y = at.top + at.lanes.y + 8;
      await page.mouse.move(x, y);
      await settle(page);
      const note = view.strings[view.spans.note[i]];
      assert.ok((await textOf(page, '.tip')).includes(note));
      assert.ok((await textOf(page, '.details')).includes(note));
      await page.mouse.click(x, y);
      assert.deepEqual((await shown(page)).selection,
                       {kind: 'span', view: 0, index: i});
      const details = await textOf(page, '.details');
      assert.ok(details.includes(
          formatTime(view.spans.end[i] - view.spans.start[i])));
      await page.getByRole('button', {name: /CPU optimizer/}).click();
      assert.deepEqual((await shown(page)).selection,
                       {kind: 'span', view: 0, index: cause});
      assert.ok((await textOf(page, '.details h3')).startsWith(
          view.strings[view.spans.label[cause]]));
    });
  });

  it('of an operator say its shapes, bytes and time', () => {
    const i = spansWhere((s) => view.spans.kind[s] === 1)[30]!;
    return using(normal, `sel=span.0.${i}`, async ({page}) => {
      const {ops} = view.programs[0];
      const moment = view.spans.moment[i];
      const text = await textOf(page, '.details');
      assert.ok(text.includes(ops.name[moment]));
      assert.ok(text.includes(ops.shapes[moment]));
      assert.ok(text.includes(formatBytes(ops.non_model_peak_bytes[moment])));
      assert.ok(text.includes(
          formatTime(view.spans.end[i] - view.spans.start[i])));
      const point = view.memory.op.findIndex(
          (op: number, p: number) => op === moment &&
              view.memory.step[p] === view.spans.step[i]);
      assert.ok(text.includes(formatBytes(
          sum(view.memory.bytes.map((list: number[]) => list[point]!)))));
      // The details lead to its chunk.
      const chunk = view.spans.chunk[i];
      await page.locator('.details .link').last().click();
      assert.deepEqual((await shown(page)).selection, {
        kind: 'chunk', view: 0, chunk, time: view.spans.start[i],
      });
    });
  });

  it('of a chunk say its parameters, state, next use and last move', () => {
    const i = spansWhere((s) => view.spans.kind[s] === 2 &&
        view.spans.step[s] === 1 && view.spans.chunk[s] === 3)[0]!;
    return using(normal, '', async ({page}) => {
      const at = await places(page);
      const middle = (view.spans.start[i] + view.spans.end[i]) / 2;
      const {start, end} = await shown(page);
      await page.mouse.click(
          at.left + (middle - start) / (end - start) * at.width,
          at.top + at.residency.y + 3.5 * Math.floor(
              Math.min(22, at.residency.height / 7)));
      const text = await textOf(page, '.details');
      assert.ok(text.includes('chunk 3'));
      assert.ok(text.includes('arriving (device)'));
      assert.ok(text.includes('clean'));
      for (const name of view.programs[0].chunks[3].parameters) {
        assert.ok(text.includes(name), name);
      }
      assert.ok(text.includes('transformer.h.2.ln_1/forward'), 'the next use');
      assert.ok(text.includes(view.strings[view.spans.note[i]]),
                'why it was moved');
      assert.ok(text.includes('12.0 MiB on the host'));
    });
  });

  it('of the peak are a key away, and add up', () => using(
       normal, '', async ({page}) => {
         await page.keyboard.press('p');
         const text = await textOf(page, '.details');
         assert.ok(text.includes(formatBytes(view.peak.bytes)));
         assert.ok(text.includes(view.peak.op));
         view.peak.by_category.forEach(
             (bytes: number) => assert.ok(text.includes(formatBytes(bytes))));
         const free = view.run.device_budget_bytes - view.peak.bytes;
         assert.ok(text.includes(`${formatBytes(free)} of 48.0 MiB`));
       }));

  it('of memory say which budget it had, and since when', () => {
    const resized = fixtures.makeResized();
    const point = view.memory.time.findIndex(
        (t: number) => t > resized.budgets.time[0]);
    return using({views: [resized]}, `sel=memory.0.${point}`, async ({page}) => {
      const text = await textOf(page, '.details');
      assert.match(text, /free of the budget.* of 24\.0 MiB/);
      assert.match(text, /48\.0 MiB → 24\.0 MiB, castor resize, after step 1/);
    });
  });

  it('of memory say what the activations are', () => {
    const point = view.memory.op.findIndex((m: number) => m === 3);
    return using(normal, `sel=memory.0.${point}`, async ({page}) => {
      const text = await textOf(page, '.details');
      assert.match(text, /kept by blocks\s*3.00 MiB of activations/);
      assert.match(text, /may leave\s*2.00 MiB of activations/);
    });
  });
});

describe('Hostile names', () => {
  it('run no script and make no markup', () => using(
       {views: [fixtures.makeHostile()]}, 'sel=span.0.12&q=script',
       async ({page}) => {
         for (const tab of ['modules', 'operators', 'chunks', 'waits', 'steps',
                            'blocks']) {
           await page.locator(`[data-tab=${tab}]`).click();
           await page.locator('.row').first().click();
           // A module's row searches its operators.
           await page.getByRole('searchbox').fill('script');
         }
         await page.getByRole('searchbox').fill('window.hacked');
         await page.keyboard.press('Enter');
         await page.keyboard.press('Escape');
         for (const key of ['p', 'j', 'w', '.', ']', 'c', 'f', '0']) {
           await page.keyboard.press(key);
         }
         const at = await places(page);
         for (const y of [at.memory.y, at.lanes.y, at.residency.y]) {
           await page.mouse.move(at.left + 40, at.top + y + 9);
         }
         await settle(page);
         assert.equal(
             await page.evaluate(() => (window as any).hacked), undefined);
         assert.equal(await page.locator('img').count(), 0);
         assert.equal(await page.locator('script').count(), 2);
         assert.ok((await textOf(page, '.about')).includes('<img src=x'));
       }));

  it('are said to be no view where they are none', async () => {
    for (const data of [{views: [{version: 99}]}, {views: 3}, [],
                        {views: [{version: 1, spans: {start: ['<b>']}}]}]) {
      const opened = await open(data);
      const text = await textOf(opened.page, '.failure');
      assert.ok(text.includes('cannot be shown'), text);
      await close(opened);
    }
  });
});

describe('Ranks', () => {
  const ranks = fixtures.makeRanks();
  const rankOf = (page: Opened['page']) => page.evaluate(
      () => window.castorViewer!.models[0]!.data.run!.rank);

  it('are chosen by name, and the link keeps the choice', () => using(
       ranks, 'tab=steps', async ({page}) => {
         assert.equal(await rankOf(page), 0);
         assert.deepEqual(
             await page.$$eval('.ranks option', (options) => options.map(
                 (option) => option.textContent)),
             ['rank 0 on node-a', 'rank 1 on node-a', 'rank 2 on node-b']);
         await Promise.all([
           page.waitForEvent('load'),
           page.selectOption('.ranks', '2'),
         ]);
         await page.waitForFunction(() => window.castorViewer);
         await settle(page);
         assert.equal(await rankOf(page), 2);
         assert.match(page.url(), /rank=2/);
         // The tab is the same, with this rank's steps.
         assert.equal((await tableRows(page)).length, 5);
         assert.equal(await page.$eval(
             '.ranks', (select) => (select as HTMLSelectElement).value), '2');
       }));

  it('show their network, and for whom they waited', () => using(
       ranks, 'rank=1&tab=steps', async ({page}) => {
         assert.equal(await rankOf(page), 1);
         const head = await page.$$eval(
             '.tables [role=columnheader]',
             (cells) => cells.map((cell) => cell.textContent ?? ''));
         assert.ok(head.some((text) => text.startsWith('late ranks')));
         const summary = await textOf(page, '.summary');
         assert.match(summary, /late ranks\s*2.00 ms/);
         assert.match(summary, /to other ranks\s*8.00 KiB/);
         // The wait on the network's lane says which rank came late.
         await page.evaluate(() => {
           const app = window.castorViewer!;
           const index = app.model.data.spans.lateRank.indexOf(2);
           app.select({kind: 'span', view: 0, index}, true);
         });
         await settle(page);
         const details = await textOf(page, '.details');
         assert.match(details, /wait for rank 2/);
         assert.match(details, /Rank 2 came 2.00 ms later/);
       }));

  it('are missed where a killed run left them elsewhere', () => using(
       {views: [ranks.views[0]]}, '', async ({page}) => {
         assert.match(await textOf(page, '.banner'),
                      /Of 3 ranks this trace holds rank 0/);
         assert.equal(await page.$('.ranks'), null);
       }));

  it('are no word on one rank', () => using(normal, '', async ({page}) => {
       assert.equal(await page.$('.ranks'), null);
       assert.doesNotMatch(await textOf(page, '.summary'), /late ranks/);
     }));
});
