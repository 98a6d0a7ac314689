// The dashboard in a real browser, before a server that answers as a run's does.
import assert from 'node:assert/strict';
import {createServer, type Server} from 'node:http';
import type {AddressInfo} from 'node:net';
import {after, afterEach, before, describe, it} from 'node:test';

import type {Page} from 'playwright-core';

import {type LiveOptions, liveAnswer} from './live_fixtures';
import {
  color, type Opened, openUrl, pageText, startBrowser, stopBrowser, textOf,
} from './harness';

/** A run with a server, as far as the page can tell. */
class FakeRun {
  steps: number[] = [];
  options: LiveOptions = {};
  /** What was asked for, since the last look. */
  asked: string[] = [];
  /** As the program's server has one, another for each run. */
  token = 'one';
  private server: Server|null = null;
  private port = 0;

  /** At the port that it had before, if it had one. */
  async start(): Promise<string> {
    const page = await pageText('dashboard.ts');
    this.server = createServer((request, response) => {
      const url = new URL(request.url!, 'http://run');
      response.setHeader('Connection', 'close');
      if (!url.pathname.startsWith(`/${this.token}/`)) {
        response.statusCode = 403;
        response.end();
      } else if (url.pathname === `/${this.token}/`) {
        response.setHeader('Content-Type', 'text/html; charset=utf-8');
        response.end(page);
      } else if (url.pathname === `/${this.token}/live.json`) {
        this.asked.push(url.search);
        response.end(JSON.stringify(this.answer(url.searchParams)));
      } else {
        response.statusCode = 404;
        response.end();
      }
    });
    await new Promise<void>(
        (done) => this.server!.listen(this.port, '127.0.0.1', done));
    this.port = (this.server.address() as AddressInfo).port;
    return `http://127.0.0.1:${this.port}/${this.token}/`;
  }

  async stop(): Promise<void> {
    const server = this.server;
    this.server = null;
    if (!server) return;
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
  }

  private answer(query: URLSearchParams) {
    const after = (name: string) => Number(query.get(name));
    const answer = liveAnswer(
        this.steps.filter((step) => step > after('since')), {
          ...this.options,
          validated: (this.options.validated ?? [])
                         .filter((step) => step > after('validated')),
        });
    answer.latest = liveAnswer(this.steps.slice(-1)).points;
    return answer;
  }
}

let run = new FakeRun();
before(startBrowser);
after(stopBrowser);
afterEach(async () => {
  await run.stop();
  run = new FakeRun();
});

async function using(
    then: (page: Page, opened: Opened) => Promise<void>,
    scheme: 'light'|'dark' = 'light', width = 1280): Promise<void> {
  const opened = await openUrl(await run.start(), {scheme, width});
  await then(opened.page, opened);
  // The browser itself tells that a server is gone, or refuses.
  assert.deepEqual(
      opened.errors.filter((error) => !/ERR_CONNECTION|403/.test(error)), []);
  for (const url of opened.requests) assert.match(url, /\/live\.json\?since=/);
  await opened.page.close();
}

async function untilState(page: Page, text: string): Promise<void> {
  await page.waitForFunction(
      (wanted) => document.querySelector('#state')?.textContent?.includes(
          wanted),
      text);
}

/** What a figure says. */
function figure(page: Page, name: string): Promise<string> {
  return page.$$eval(
      '#figures div', (all, wanted) => all.find(
          (one) => one.querySelector('dt')?.textContent === wanted)
          ?.querySelector('dd')?.textContent ?? 'none',
      name);
}

function chart(page: Page, title: string): Promise<string> {
  return page.$$eval(
      '.plot', (all, wanted) => all.map(
          (plot) => plot.getAttribute('aria-label') ?? '').find(
          (label) => label.startsWith(wanted)) ?? 'none',
      title);
}

describe('Dashboard', () => {
  it('says what the run has said', () => {
    run.steps = [1, 2, 3, 4];
    run.options = {validated: [2, 4]};
    return using(async (page) => {
      await untilState(page, 'running: step 4 of 100, 48.0 s left');
      assert.equal(await figure(page, 'loss'), '2.5000');
      assert.equal(await figure(page, 'validation loss'), '4.5000');
      assert.equal(await figure(page, 'tokens/s'), '1\u202f004');
      assert.equal(await figure(page, 'step'), '500 ms');
      assert.equal(await figure(page, 'waiting'), '25.0 %');
      assert.equal(await figure(page, 'bus, to the device'), '4.00 KiB');
      assert.equal(await figure(page, 'bus, to the host'), '2.00 KiB');
      assert.equal(await figure(page, 'learning rate'), '0.00400');
      assert.equal(
          await chart(page, 'Loss'),
          'Loss, step 1 to 4; last: training 2.500, validation 4.500');
      assert.equal(
          await chart(page, 'Device memory'),
          'Device memory, step 1 to 4; last: in use 3.00 MiB, ' +
              'peak 7.00 MiB, budget 8.00 MiB');
      // Without a budget there is no line for it.
      assert.equal(
          await chart(page, 'Host memory'),
          'Host memory, step 1 to 4; last: in use 20.0 MiB, budget none');
      const memory = await textOf(page, '.memory');
      assert.match(memory, /device: 3\.00 MiB of 8\.00 MiB/);
      assert.match(memory, /host: 20\.0 MiB, without a budget/);
      assert.equal(
          await textOf(page, '.memory tbody tr:nth-child(2)'),
          'gradients0 B4.00 MiB0 B0 B');
      assert.equal(await page.title(), '4/100 gpt2, 2 layers of 16, fp32');
    });
  });

  it('goes on as the run does, asking for what is new', () => {
    run.steps = [1, 2];
    return using(async (page) => {
      await untilState(page, 'step 2 of 100');
      run.steps.push(3, 4, 5);
      run.options = {validated: [4]};
      await untilState(page, 'step 5 of 100');
      assert.equal(run.asked[0], '?since=0&validated=0');
      assert.ok(run.asked.includes('?since=2&validated=0'));
      assert.equal(
          await chart(page, 'Loss'),
          'Loss, step 1 to 5; last: training 2.000, validation 4.500');
    });
  });

  it('begins anew where the run has merged its points', () => {
    run.steps = [1, 2, 3, 4];
    return using(async (page) => {
      await untilState(page, 'step 4 of 100');
      run.steps = [2, 4, 6];
      run.options = {every: 2};
      await untilState(page, 'step 6 of 100');
      assert.match(await chart(page, 'Loss'), /^Loss, step 2 to 6;/);
      assert.equal(
          run.asked.filter((query) => query === '?since=0&validated=0').length,
          2);
    });
  });

  it('shows where the budget changed, and who asked', () => {
    run.steps = [1, 2, 3, 4];
    run.options = {budgets: {
      step: [2], from: [8 << 20], to: [6 << 20], asked_by: ['castor resize']}};
    return using(async (page) => {
      await untilState(page, 'step 4 of 100');
      assert.equal(
          await chart(page, 'Device memory'),
          'Device memory, step 1 to 4; last: in use 3.00 MiB, peak 7.00 MiB, ' +
              'budget 8.00 MiB; after step 2: 8.00 MiB → 6.00 MiB, ' +
              'castor resize');
      assert.match(await textOf(page, '.memory'),
                   /after step 2: 8\.00 MiB → 6\.00 MiB, castor resize/);
    });
  });

  it('draws its curves in their colours', () => {
    run.steps = [...Array(50).keys()].map((i) => i + 1);
    return using(async (page) => {
      await untilState(page, 'step 50 of 100');
      for (const [title, names] of [
             ['Loss', ['accent']], ['Bus', ['fetch', 'copy_back']],
             ['Time', ['accent', 'wait']], ['Device', ['category-2', 'budget']],
           ] as const) {
        for (const name of names) {
          const wanted = await color(page, name);
          const count = await page.$$eval(
              '.chart', (all, [start, hex]) => {
                const canvas = all.find(
                    (one) => one.querySelector('h2')!.textContent!.startsWith(
                        start))!.querySelector('canvas')!;
                const {data} = canvas.getContext('2d')!.getImageData(
                    0, 0, canvas.width, canvas.height);
                const rgb = [1, 3, 5].map(
                    (at) => parseInt(hex.slice(at, at + 2), 16));
                let found = 0;
                for (let i = 0; i < data.length; i += 4) {
                  if (rgb.every((v, c) => Math.abs(data[i + c]! - v) < 24) &&
                      data[i + 3]! > 128) {
                    found++;
                  }
                }
                return found;
              }, [title, wanted] as const);
          assert.ok(count > 50, `${title}: ${count} pixels of ${name}`);
        }
      }
    });
  });

  for (const [state, message, expected] of [
         ['finished', '', 'finished after step 3 of 100'],
         ['interrupted', '', 'interrupted after step 3 of 100'],
         ['failed', 'no <b>room</b><img src=x onerror=alert(1)>',
          'failed after step 3 of 100: no <b>room</b><img src=x ' +
              'onerror=alert(1)>'],
       ] as const) {
    it(`says how a run ended that is ${state}, even when it is gone`, () => {
      run.steps = [1, 2, 3];
      run.options = {state, message};
      return using(async (page) => {
        await untilState(page, expected);
        assert.equal(await page.locator('header img, header b').count(), 0);
        await run.stop();
        // Once it has asked in vain, it says the same.
        await page.waitForEvent('requestfailed');
        assert.equal(await textOf(page, '#state'), expected);
        assert.equal(
            await page.getAttribute('#state', 'data-state'), state);
      });
    });
  }

  it('says when a run is gone without a word, and asks on', () => {
    run.steps = [1, 2, 3];
    return using(async (page) => {
      await untilState(page, 'running: step 3');
      await run.stop();
      await untilState(page, 'stopped or killed after step 3 of 100');
      assert.equal(await page.getAttribute('#state', 'data-state'), 'lost');
      run.steps = [1, 2, 3, 4];
      await run.start();
      await untilState(page, 'running: step 4 of 100');
      assert.match(await chart(page, 'Loss'), /^Loss, step 1 to 4;/);
    });
  });

  it('asks the next run at its port no more than once', () => {
    run.steps = [1, 2, 3];
    return using(async (page) => {
      await untilState(page, 'running: step 3');
      await run.stop();
      run.token = 'two';
      run.asked = [];
      await run.start();
      await untilState(
          page, 'stopped or killed after step 3 of 100; another run is here');
      assert.equal(await page.getAttribute('#state', 'data-state'), 'lost');
      assert.match(await chart(page, 'Loss'), /^Loss, step 1 to 3;/);
      assert.deepEqual(run.asked, []);
    });
  });

  it('shows a run that has not stepped, and names as text', () => {
    run.options = {title: '<script>alert(1)</script><b>x</b>'};
    return using(async (page) => {
      await untilState(page, 'running: step 0 of 100');
      assert.equal(await figure(page, 'loss'), '–');
      assert.match(await textOf(page, 'h1'), /^<script>alert\(1\)<\/script>/);
      assert.equal(await page.locator('h1 *').count(), 0);
    });
  });

  for (const [scheme, width] of
           [['light', 1280], ['dark', 1280], ['light', 420]] as const) {
    it(`fits ${width} pixels in ${scheme} colours`, () => {
      run.steps = [1, 2, 3];
      return using(async (page) => {
        await untilState(page, 'step 3 of 100');
        assert.ok(await page.evaluate(
            () => document.documentElement.scrollWidth <= innerWidth));
        assert.equal(
            await page.evaluate(
                () => document.documentElement.dataset['theme']),
            scheme);
      }, scheme, width);
    });
  }
});
