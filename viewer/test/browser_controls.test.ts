// The viewer's controls in a real browser: mouse, wheel, keys, tables, search,
// links, theme, two runs beside each other, many events.
import assert from 'node:assert/strict';
import {createServer} from 'node:http';
import {after, before, describe, it} from 'node:test';

import {formatTime} from '../src/format';
import * as fixtures from './fixtures';
import {
  close, ofAll, open, type Opened, openUrl, pageText, pixels, places, settle, shown,
  startBrowser, stopBrowser, tableRows, textOf,
} from './harness';

before(startBrowser);
after(stopBrowser);

const view = fixtures.makeView();
const normal = {views: [view]};
const whole = view.steps[3].end_ns - view.steps[0].start_ns;

async function using(
    data: unknown, hash: string, then: (opened: Opened) => Promise<void>):
    Promise<void> {
  const opened = await open(data, {hash: ofAll(hash)});
  await then(opened);
  await close(opened);
}

const near = (value: number, wanted: number, within: number) => assert.ok(
    Math.abs(value - wanted) <= within, `${value} is not about ${wanted}`);

describe('Mouse', () => {
  it('zooms by the wheel about the pointer', () => using(
       normal, '', async ({page}) => {
         const at = await places(page);
         const time = view.steps[0].start_ns + whole / 4;
         await page.mouse.move(at.left + at.width / 4, at.top + 60);
         await page.mouse.wheel(0, -200);
         await settle(page);
         const {start, end} = await shown(page);
         near(end - start, whole * Math.exp(-0.4), whole / 1000);
         near(start + (end - start) / 4, time, whole / 1000);
       }));

  it('pans by dragging, no further than there is', () => using(
       normal, 't=60000000~100000000', async ({page}) => {
         const at = await places(page);
         const drag = async (by: number) => {
           await page.mouse.move(at.left + 400, at.top + 60);
           await page.mouse.down();
           await page.mouse.move(at.left + 400 + by / 2, at.top + 60);
           await page.mouse.move(at.left + 400 + by, at.top + 60);
           await page.mouse.up();
         };
         await drag(-at.width / 4);
         let now = await shown(page);
         near(now.start, 70e6, 4e5);
         near(now.end - now.start, 40e6, 1);
         assert.equal(now.selection, null);
         for (let i = 0; i < 8; i++) await drag(at.width / 3);
         now = await shown(page);
         assert.equal(now.start, view.steps[0].start_ns);
         near(now.end - now.start, 40e6, 1);
       }));

  it('zooms to a range that is dragged with shift, or on the ruler', () =>
       using(normal, '', async ({page}) => {
         const at = await places(page);
         const drag = async (y: number) => {
           await page.mouse.move(at.left + at.width / 4, y);
           await page.mouse.down();
           await page.mouse.move(at.left + at.width / 3, y);
           await page.mouse.move(at.left + at.width / 2, y);
           await page.mouse.up();
         };
         await page.keyboard.down('Shift');
         await drag(at.top + 60);
         await page.keyboard.up('Shift');
         const first = await shown(page);
         near(first.start, view.steps[0].start_ns + whole / 4, whole / 500);
         near(first.end, view.steps[0].start_ns + whole / 2, whole / 500);
         await drag(at.top - 12);
         const second = await shown(page);
         near(second.end - second.start, whole / 16, whole / 500);
       }));

  it('zooms to an event by a double click', () => {
    const i = view.tables.waits.longest_span[1];
    return using(normal, '', async ({page}) => {
      const at = await places(page);
      const middle = (view.spans.start[i] + view.spans.end[i]) / 2;
      await page.mouse.dblclick(
          at.left + (middle - view.steps[0].start_ns) / whole * at.width,
          at.top + at.lanes.y + 8);
      const {start, end} = await shown(page);
      const span = view.spans.end[i] - view.spans.start[i];
      near(start, view.spans.start[i] - 0.3 * span, 1);
      near(end, view.spans.end[i] + 0.3 * span, 1);
    });
  });
});

describe('Keyboard', () => {
  it('zooms and pans', () => using(normal, '', async ({page}) => {
       await page.keyboard.press('w');
       let now = await shown(page);
       near(now.end - now.start, whole / 1.4, 1);
       const {start} = now;
       await page.keyboard.press('ArrowRight');
       now = await shown(page);
       near(now.start, start + 0.15 * whole / 1.4, 1);
       await page.keyboard.press('a');
       await page.keyboard.press('s');
       now = await shown(page);
       assert.equal(now.end - now.start, whole);
     }));

  it('goes from step to step and back to all', () => using(
       normal, '', async ({page}) => {
         for (const step of [0, 1, 2]) {
           await page.keyboard.press('j');
           const {start, end} = await shown(page);
           assert.deepEqual([start, end], [view.steps[step].start_ns,
                                           view.steps[step].end_ns]);
         }
         await page.keyboard.press('k');
         assert.equal((await shown(page)).start, view.steps[1].start_ns);
         await page.keyboard.press('0');
         assert.equal((await shown(page)).end, view.steps[3].end_ns);
       }));

  it('goes along a lane, from wait to wait and to its cause', () => using(
       normal, '', async ({page}) => {
         const lane = [...view.spans.stream.keys()].filter(
             (i) => view.spans.stream[i] === 0);
         const waits = lane.filter((i) => view.spans.kind[i] < 0);
         const selected = async () =>
             ((await shown(page)).selection as any)?.index;
         await page.keyboard.press(']');
         assert.equal(await selected(), waits[0]);
         await page.keyboard.press(']');
         assert.equal(await selected(), waits[1]);
         await page.keyboard.press('.');
         assert.equal(await selected(),
                      lane[lane.indexOf(waits[1]!) + 1]);
         await page.keyboard.press('[');
         assert.equal(await selected(), waits[1]);
         await page.keyboard.press('c');
         assert.equal(await selected(), view.spans.cause[waits[1]!]);
         await page.keyboard.press('f');
         const {start, end} = await shown(page);
         assert.ok(start < view.spans.start[(await selected())!]);
         assert.ok(end - start < whole / 50);
         await page.keyboard.press('Escape');
         assert.equal((await shown(page)).selection, null);
       }));

  it('reaches all controls, and shows its keys', () => using(
       normal, '', async ({page}) => {
         const reached = new Set<string>();
         for (let i = 0; i < 40; i++) {
           await page.keyboard.press('Tab');
           reached.add(await page.evaluate(() => {
             const e = document.activeElement as HTMLElement;
             return e.dataset['tab'] ?? e.dataset['column'] ??
                 e.getAttribute('aria-label') ?? e.className ?? '';
           }));
         }
         for (const name of ['Search operators and parameters', 'help',
                             'modules', 'total_ns', 'body',
                             'height of the tables']) {
           assert.ok(reached.has(name), `${name}: ${[...reached]}`);
         }
         assert.ok([...reached].some((name) => name.startsWith('Timeline')));
         await page.keyboard.press('?');
         assert.ok(await page.locator('dialog[open]').isVisible());
         const keys = await textOf(page, 'dialog');
         assert.ok(keys.includes('next and previous'));
         await page.keyboard.press('Escape');
         assert.equal(await page.locator('dialog[open]').count(), 0);
       }));
});

describe('Tables', () => {
  it('sort by any column, both ways', () => using(
       normal, 'tab=operators&sort=moment.up', async ({page}) => {
         const {operators} = view.tables;
         const totals = [...operators.total_ns].sort((a, b) => b - a);
         await page.getByRole('columnheader', {name: 'total'})
             .getByRole('button').click();
         let rows = await tableRows(page);
         assert.deepEqual(rows.slice(0, 5).map((row) => row[4]),
                          totals.slice(0, 5).map(formatTime));
         await page.getByRole('columnheader', {name: 'total'})
             .getByRole('button').click();
         rows = await tableRows(page);
         assert.equal(rows[0]![4], formatTime(totals.at(-1)!));
         assert.equal(
             await page.locator('[aria-sort=ascending]').textContent(),
             'total ▴');
         await page.getByRole('columnheader', {name: 'operator'})
             .getByRole('button').click();
         rows = await tableRows(page);
         assert.equal(rows[0]![1], 'lm_head/backward');
       }));

  it('have all rows, only those in sight in the document', () => using(
       normal, 'tab=operators&sort=moment.up', async ({page}) => {
         assert.equal((await shown(page)).rows, 114);
         assert.equal(await textOf(page, '.count'), '114 rows');
         assert.ok((await tableRows(page)).length < 30);
         await page.locator('.tables .body').focus();
         await page.keyboard.press('End');
         await settle(page);
         const rows = await tableRows(page);
         assert.equal(rows.at(-1)![1], 'update(6)');
         await page.keyboard.press('Enter');
         const {index} = (await shown(page)).selection as any;
         assert.equal(view.strings[view.spans.label[index]], 'update(6)');
       }));

  it('give waits by cause with their totals, and lead to the longest', () =>
       using(normal, 'tab=waits&sort=total_ns.down', async ({page}) => {
         const {waits} = view.tables;
         const rows = await tableRows(page);
         const order = [...waits.total_ns.keys()].sort(
             (a, b) => waits.total_ns[b] - waits.total_ns[a]);
         assert.deepEqual(rows.map((row) => row[0]),
                          order.map((i) => waits.cause[i]));
         assert.deepEqual(rows.map((row) => row[4]),
                          order.map((i) => formatTime(waits.total_ns[i])));
         await page.locator('.row').nth(1).click();
         assert.deepEqual((await shown(page)).selection, {
           kind: 'span', view: 0, index: waits.longest_span[order[1]!],
         });
       }));

  it('give chunks by traffic, and lead to their rows', () => using(
       normal, 'tab=chunks', async ({page}) => {
         await page.getByRole('columnheader', {name: 'fetched'})
             .getByRole('button').click();
         const rows = await tableRows(page);
         const most = Math.max(...view.tables.chunks.fetches);
         assert.equal(rows.length, 7);
         assert.equal(rows[0]![5], String(most));
         await page.locator('.row').first().click();
         const {chunk} = (await shown(page)).selection as any;
         assert.equal(String(chunk), rows[0]![0]);
       }));
});

describe('Search', () => {
  it('finds by name and goes through the hits in time', () => using(
       normal, 'tab=operators', async ({page}) => {
         await page.keyboard.press('/');
         await page.keyboard.type('lm_head/forward');
         const hits = [...view.spans.start.keys()].filter(
             (i) => view.strings[view.spans.label[i]] === 'lm_head/forward');
         assert.deepEqual((await shown(page)).hits, [hits.length]);
         assert.equal(await textOf(page, '.found'), '4');
         assert.equal((await shown(page)).rows, 1);
         for (const hit of [hits[0], hits[1]]) {
           await page.keyboard.press('Enter');
           assert.equal(((await shown(page)).selection as any).index, hit);
         }
         assert.equal(await textOf(page, '.found'), '2 / 4');
         await page.keyboard.press('Shift+Enter');
         assert.equal(((await shown(page)).selection as any).index, hits[0]);
         await page.keyboard.press('Escape');
         assert.deepEqual((await shown(page)).hits, [0]);
         assert.equal((await shown(page)).rows, 114);
       }));

  it('finds a parameter in its chunk', () => using(
       normal, '', async ({page}) => {
         await page.getByRole('searchbox').fill('h.3.mlp.c_fc.weight');
         assert.ok((await textOf(page, '.matches')).includes('in chunk 4'));
         await page.locator('.matches button').first().click();
         const {index} = (await shown(page)).selection as any;
         assert.equal(view.spans.chunk[index], 4);
         await page.locator('[data-tab=chunks]').click();
         assert.deepEqual((await tableRows(page)).map((row) => row[0]), ['4']);
       }));
});

describe('Link', () => {
  it('holds the range, the selection, the tab, the search, the theme', () =>
       using(normal, '', async (opened) => {
         const {page} = opened;
         await page.keyboard.press('j');
         await page.keyboard.press(']');
         await page.keyboard.press('4');
         await page.keyboard.press('t');
         await page.getByRole('searchbox').fill('attn');
         await page.evaluate(() => window.castorViewer!.writeLink());
         const before = await shown(page);
         const hash = await page.evaluate(() => location.hash.slice(1));
         const again = await open(normal, {hash});
         assert.deepEqual(await shown(again.page), {
           ...before, start: Math.round(before.start),
           end: Math.round(before.end),
         });
         assert.equal(before.tab, 'waits');
         assert.equal(before.theme, 'dark');
         await close(again);
       }));

  it('is followed without loading the page again', () => using(
       normal, '', async ({page}) => {
         await page.evaluate(() => {
           (window as any).here = true;
           location.hash = '#t=60000000~70000000&sel=chunk.0.2.65000000';
         });
         await page.waitForFunction(
             () => window.castorViewer!.timeline.axis.start === 60e6);
         assert.ok((await textOf(page, '.details h3')).includes('chunk 2'));
         assert.equal(await page.evaluate(() => (window as any).here), true);
       }));

  it('of another trace does no harm', () => using(
       normal, 't=-5~1&sel=span.7.99999999&tab=nothing&q=%E0%A4%A',
       async ({page}) => {
         const now = await shown(page);
         assert.equal(now.selection, null);
         assert.equal(now.tab, 'modules');
       }));
});

describe('Theme', () => {
  it('follows the system, then the toggle', async () => {
    const opened = await open(normal, {scheme: 'dark'});
    const {page} = opened;
    const ground = () => page.evaluate(
        () => getComputedStyle(document.body).backgroundColor);
    assert.equal((await shown(page)).theme, 'dark');
    const dark = await ground();
    const [before] = await pixels(page, 200, 30, 1, 1);
    await page.getByRole('button', {name: 'Light'}).click();
    assert.equal((await shown(page)).theme, 'light');
    assert.notEqual(await ground(), dark);
    await page.locator('[data-tab=chunks]').click();
    await settle(page);
    const at = await places(page);
    const pixel = (await pixels(page, 300, at.lanes.y + 10, 1, 1))[0];
    assert.notEqual(pixel, before);
    await close(opened);
  });
});

describe('Two runs', () => {
  const both = fixtures.makeComparison();
  const typical = (v: any) => v.steps[v.summary.median_step];

  it('share one scale of time and bytes', () => using(
       both, '', async ({page}) => {
         const [a, b] = [await places(page, 0), await places(page, 1)];
         assert.equal(a.width, b.width);
         assert.equal(a.memory.height, b.memory.height);
         assert.equal(a.memoryTop, b.memoryTop);
         const {start, end} = await shown(page);
         // Both count from where their typical steps begin.
         assert.equal(start, Math.min(...both.views.map(
             (v: any) => v.steps[0].start_ns - typical(v).start_ns)));
         assert.equal(end, Math.max(...both.views.map(
             (v: any) => v.steps[3].end_ns - typical(v).start_ns)));
       }));

  it('are compared in numbers and sentences', () => using(
       both, '', async ({page}) => {
         const text = await textOf(page, '.comparison');
         for (const row of both.comparison.rows) {
           assert.ok(text.includes(row.name));
         }
         const [a, b] = both.views.map((v: any) => v.summary.step_ns);
         assert.ok(text.includes(formatTime(a)));
         assert.ok(text.includes(formatTime(b)));
         const percent = (100 * (a - b) / a).toFixed(1);
         assert.ok(text.includes(`−${percent} %`), `${percent} in ${text}`);
         assert.ok(text.includes(both.comparison.notes[0]));
       }));

  it('are selected and listed each on its own', () => using(
       both, '', async ({page}) => {
         await page.getByRole('button', {name: 'B', exact: true}).click();
         await page.locator('[data-tab=steps]').click();
         const rows = await tableRows(page);
         const steps = both.views[1].steps;
         assert.deepEqual(rows.map((row) => row[1]), steps.map(
             (s: any) => formatTime(s.end_ns - s.start_ns)));
         await page.locator('.row').nth(2).click();
         const {start} = await shown(page);
         assert.equal(
             start, steps[2].start_ns - typical(both.views[1]).start_ns);
         const at = await places(page, 1);
         await page.mouse.click(at.left + 300, at.top + at.lanes.y + 4);
         assert.equal(((await shown(page)).selection as any).view, 1);
       }));
});

describe('100,000 events', () => {
  const large = fixtures.makeLarge();

  it('are all there, and cost a frame no more than its pixels', () => using(
       {views: [large]}, '', async ({page}) => {
         const count = await page.evaluate(
             () => window.castorViewer!.models[0]!.data.spans.count);
         assert.ok(count >= 100_000, `${count} events`);
         // Rectangles drawn, of all and of a hundredth of it.
         const rectangles = () => page.evaluate(() => {
           const {timeline} = window.castorViewer!;
           const prototype = CanvasRenderingContext2D.prototype as any;
           const fillRect = prototype.fillRect;
           let calls = 0;
           prototype.fillRect = function(...box: number[]) {
             calls++;
             return fillRect.apply(this, box);
           };
           (timeline as any).baseChanged = true;
           (timeline as any).draw();
           prototype.fillRect = fillRect;
           return calls;
         });
         const at = await places(page);
         const rows = 25 + 4;
         assert.ok(await rectangles() < 1.5 * rows * at.width);
         await page.evaluate(() => {
           window.castorViewer!.timeline.axis.zoom(0.01);
           window.castorViewer!.timeline.moved();
         });
         assert.ok(await rectangles() < rows * at.width / 4);
       }));

  it('are searched, zoomed and selected like few', () => using(
       {views: [large]}, '', async ({page}) => {
         await page.getByRole('searchbox').fill('h.17.mlp.c_fc');
         const hits = (await shown(page)).hits[0]!;
         const steps = large.steps.length;
         // An operator forward and one backward in each step, and what moves
         // the chunk of the parameter.
         assert.ok(hits >= 2 * steps, `${hits} hits in ${steps} steps`);
         await page.keyboard.press('Enter');
         const {index} = (await shown(page)).selection as any;
         const {start, end} = await shown(page);
         assert.ok(start <= large.spans.start[index] &&
                   large.spans.end[index] <= end);
         const at = await places(page);
         await page.mouse.move(at.left + 100, at.top + 60);
         for (let i = 0; i < 12; i++) await page.mouse.wheel(0, -200);
         await settle(page);
         const now = await shown(page);
         assert.ok(now.end - now.start < (end - start) / 50);
       }));
});

describe('Server', () => {
  it('is asked for the view by a page without one', async () => {
    const html = await pageText();
    const asked: string[] = [];
    const server = createServer((request, response) => {
      asked.push(request.url ?? '');
      if (request.url === '/') {
        response.writeHead(200, {'content-type': 'text/html'}).end(html);
      } else if (request.url === '/view.json') {
        response.writeHead(200, {'content-type': 'application/json'})
            .end(JSON.stringify(normal));
      } else {
        response.writeHead(404).end();
      }
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    try {
      const {port} = server.address() as {port: number};
      const opened = await openUrl(`http://127.0.0.1:${port}/`);
      await opened.page.waitForFunction(() => window.castorViewer);
      assert.equal((await shown(opened.page)).end, view.steps[3].end_ns);
      assert.deepEqual(opened.errors, []);
      assert.deepEqual(asked, ['/', '/view.json']);
      await opened.page.close();
    } finally {
      server.close();
    }
  });
});
