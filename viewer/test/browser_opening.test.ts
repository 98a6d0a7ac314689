// What is seen first, without a click, on screens of several widths: a typical
// step, and where its time goes.
import assert from 'node:assert/strict';
import {after, before, describe, it} from 'node:test';

import {formatFlops, formatShare, formatTime} from '../src/format';
import * as fixtures from './fixtures';
import {
  close, color, open, type Opened, pixels, places, settle, shown, startBrowser,
  stopBrowser, tableRows, textOf,
} from './harness';

before(startBrowser);
after(stopBrowser);

const view = fixtures.makeView();
const normal = {views: [view]};
const typical = view.steps[view.summary.median_step];

async function using(
    data: unknown, options: {hash?: string, width?: number, height?: number},
    then: (opened: Opened) => Promise<void>): Promise<void> {
  const opened = await open(data, options);
  await then(opened);
  await close(opened);
}

describe('First', () => {
  it('a typical step is shown, and a key leads to all and back', () => using(
       normal, {}, async ({page}) => {
         const range = async () => {
           const {start, end} = await shown(page);
           return [start, end];
         };
         const step = [typical.start_ns, typical.end_ns];
         const all = [view.steps[0].start_ns, view.steps[3].end_ns];
         assert.deepEqual(await range(), step);
         assert.equal(await textOf(page, '.range .shown'),
                      `step ${typical.step} (typical)`);
         await page.keyboard.press('0');
         assert.deepEqual(await range(), all);
         assert.equal(await textOf(page, '.range .shown'), 'whole trace');
         await page.evaluate(() => window.castorViewer!.writeLink());
         assert.match(page.url(), /#t=all$/);
         await page.getByRole('button', {name: 'One step'}).click();
         assert.deepEqual(await range(), step);
         await page.evaluate(() => window.castorViewer!.writeLink());
         assert.doesNotMatch(page.url(), /#/);
         // The buttons do what their keys do.
         await page.getByRole('button', {name: 'next step'}).click();
         const after = view.steps[view.summary.median_step + 1] ?? typical;
         assert.deepEqual(await range(), [after.start_ns, after.end_ns]);
         await page.getByRole('button', {name: 'zoom out'}).click();
         assert.match(await textOf(page, '.range .shown'), /^step \d to step \d$/);
       }));

  it('all is shown where no step is typical', () => using(
       {views: [{...view, summary: null}]}, {}, async ({page}) => {
         assert.equal((await shown(page)).start, view.steps[0].start_ns);
         assert.equal((await shown(page)).end, view.steps[3].end_ns);
       }));

  it('modules stand by their time, with share and FLOPs', () => using(
       normal, {}, async ({page}) => {
         const {modules} = view.tables;
         const rows = await tableRows(page);
         assert.deepEqual(rows[0], [
           modules.module[0], modules.kind[0], modules.phase[0],
           String(modules.count[0]), formatTime(modules.total_ns[0]),
           formatShare(modules.share[0], 1), formatFlops(modules.flops[0]),
           `${formatFlops(modules.flops_per_s[0])}/s`, '–',
         ]);
         assert.equal(rows[0]![0], 'transformer.h.*.mlp.c_proj');
         assert.equal(rows[0]![7], '1.00 TFLOP/s');
         // A click lists the group's operators, the longest first.
         await page.locator('.row').first().click();
         const now = await shown(page);
         assert.equal(now.tab, 'operators');
         assert.equal(now.rows, 6);
         for (const [i, row] of (await tableRows(page)).entries()) {
           assert.match(row[1]!, /^transformer\.h\.\d\.mlp\.c_proj\/backward$/);
           assert.equal(row[0], String(view.programs[0].ops.name.indexOf(row[1])),
                        `row ${i}`);
         }
         assert.ok(now.hits[0]! >= 6 * view.steps.length);
       }));
});

describe('The peak', () => {
  /** From where to where on the axis the strip has a colour's ink. */
  const inks = async (page: Opened['page'], name: string) => {
    const at = await places(page);
    const strip = await pixels(page, 124, at.memory.y - 13, at.width, 9);
    const wanted = await color(page, name);
    const found = strip.map((c, i) => c === wanted ? i % at.width : -1)
                      .filter((x) => x >= 0);
    return {from: Math.min(...found), to: Math.max(...found), width: at.width};
  };

  it('has its name above the picture, and the budget its own', () => using(
       normal, {hash: `t=${view.peak.time - 3e6}~${view.peak.time + 1e4}`},
       async ({page}) => {
         // At the right edge, where both names want to be.
         const peak = await inks(page, 'text');
         const budget = await inks(page, 'budget');
         assert.ok(peak.to - peak.from > 60, `the peak's name: ${
             peak.from} to ${peak.to}`);
         assert.ok(budget.to - budget.from > 60);
         assert.ok(peak.to < budget.from, `${peak.to} and ${budget.from}`);
         assert.ok(budget.to < budget.width);
       }));

  it('is, where it is out of sight, the highest point in sight', () => {
    const after = view.steps.find(
        (step: any) => step.start_ns > view.peak.time)!;
    return using(
        normal, {hash: `t=${after.start_ns}~${after.end_ns}`},
        async ({page}) => {
          const name = await inks(page, 'text');
          assert.ok(name.to - name.from > 60, `${name.from} to ${name.to}`);
        });
  });
});

describe('Pauses', () => {
  it('have a name and count as no work', () => using(
       {views: [fixtures.makePausing()]}, {hash: 't=all'}, async ({page}) => {
         const pauses = await page.evaluate(() => {
           const model = window.castorViewer!.models[0]!;
           return [...model.data.spans.start.keys()].filter(
               (i) => model.isPause(i)).map((i) => [
                 model.label(i), model.data.spans.start[i]!,
                 model.data.spans.end[i]!,
               ] as const);
         });
         assert.deepEqual(pauses.map(([label]) => label),
                          ['planning', 'saving a checkpoint']);
         const at = await places(page);
         const {start, end} = await shown(page);
         for (const [label, from, to] of pauses) {
           const x = at.left +
               ((from + to) / 2 - start) / (end - start) * at.width;
           await page.mouse.move(x, at.top + at.lanes.y + 8);
           await settle(page);
           assert.match(await textOf(page, '.tip'), new RegExp(label));
         }
       }));
});

describe('Widths', () => {
  for (const [width, height] of [[390, 844], [1280, 800], [1920, 1080]]) {
    it(`${width}: all is within the page, and can be reached`, () => using(
         normal, {width: width!, height: height!}, async ({page}) => {
           assert.equal(
               await page.evaluate(() => document.documentElement.scrollWidth),
               width);
           // Nothing sticks out, nothing lies over another.
           const boxes = await page.$$eval(
               'header, .range, .timeline, .lower, .facts, .details',
               (parts) => parts.map((part) => {
                 const {left, right, top, bottom} =
                     part.getBoundingClientRect();
                 return {name: part.className || part.tagName, left, right, top,
                         bottom};
               }));
           assert.equal(boxes.length, 6);
           for (const a of boxes) {
             assert.ok(a.left >= 0 && a.right <= width!, JSON.stringify(a));
             assert.ok(a.right - a.left > 150 && a.bottom - a.top > 25,
                       JSON.stringify(a));
             for (const b of boxes) {
               const over = a !== b &&
                   Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 &&
                   Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
               assert.ok(!over, `${a.name} and ${b.name}`);
             }
           }
           // The tables' columns have room for what they hold.
           const cut = await page.$$eval(
               '.row .number', (cells) => cells.filter(
                   (cell) => cell.scrollWidth > cell.clientWidth).map(
                   (cell) => cell.textContent));
           assert.deepEqual(cut, []);
           const pictures = await places(page);
           assert.ok(pictures.memory.height > 60);
           assert.ok(pictures.lanes.height >= 4 * 14);
           assert.ok(pictures.residency.height > 60);
         }));
  }

  it('390: what is tapped is told below the pictures', () => using(
       normal, {width: 390, height: 844}, async ({page}) => {
         await page.evaluate(() => {
           const app = window.castorViewer!;
           const index = app.model.data.spans.kind.indexOf(1);
           app.select({kind: 'span', view: 0, index});
         });
         await settle(page);
         const [timeline, details, tables] = await Promise.all(
             ['.timeline', '.details', '.lower'].map(
                 async (part) => (await page.locator(part).boundingBox())!));
         assert.match(await textOf(page, '.details'), /wte\/forward/);
         assert.ok(timeline!.y + timeline!.height <= details!.y);
         assert.ok(details!.y + details!.height <= tables!.y);
         // The page scrolls to the summary at its end.
         await page.locator('.facts').scrollIntoViewIfNeeded();
         assert.ok(await page.locator('.facts .headline').isVisible());
         // Less fits beside a module, but its name keeps its end.
         await page.locator('[data-tab=modules]').click();
         const head = await page.$$eval(
             '.head [role=columnheader]',
             (cells) => cells.map((cell) => cell.textContent));
         assert.deepEqual(head, ['module', 'kind', 'total ▾', 'share']);
       }));
});
