// The pages as the program itself serves and writes them, of real runs, with
// the headers that it sends.
import assert from 'node:assert/strict';
import {type ChildProcess, spawn, spawnSync} from 'node:child_process';
import {
  copyFileSync, mkdtempSync, readFileSync, unlinkSync, writeFileSync,
} from 'node:fs';
import {createServer} from 'node:http';
import type {AddressInfo} from 'node:net';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {after, afterEach, before, describe, it} from 'node:test';
import {pathToFileURL} from 'node:url';

import {
  type Opened, openUrl, settle, startBrowser, stopBrowser, textOf,
} from './harness';

const castor = process.env['CASTOR']!;
const folder =
    mkdtempSync(join(process.env['VIEWER_TEST_TMP'] ?? tmpdir(), 'served-'));
const at = (name: string) => join(folder, name);
const readJson = (name: string) => JSON.parse(readFileSync(at(name), 'utf8'));

const config = {
  model: {
    type: 'gpt2', n_layer: 2, n_head: 2, n_embd: 16, n_positions: 16,
    vocab_size: 128,
  },
  data: {train: 'text.txt', sequence_length: 16, validation_fraction: 0.2},
  steps: 6, seed: 7, eval_interval: 3, eval_batches: 2,
  train_micro_batch_size_per_gpu: 2, gradient_accumulation_steps: 2,
  optimizer: {type: 'AdamW', params: {lr: 1e-3}},
  device: {type: 'host', threads: 1},
};

function run(...args: string[]): void {
  const result = spawnSync(castor, args, {cwd: folder, encoding: 'utf8'});
  assert.equal(result.status, 0, result.stderr);
}

let serving: ChildProcess|null = null;

/** Starts the program; returns the address that it prints. */
function serve(...args: string[]): Promise<string> {
  const process = spawn(castor, args, {cwd: folder});
  serving = process;
  let text = '';
  return new Promise((done, fail) => {
    // All that it prints is read to the end: a pipe that nobody reads would
    // stop it.
    const read = (piece: Buffer) => {
      text += piece;
      const found = /http:\/\/127\.0\.0\.1:\d+\/\w+\//.exec(text);
      if (found) done(found[0]);
    };
    process.stdout.on('data', read);
    process.stderr.on('data', read);
    process.once('exit', () => fail(new Error(`no address in: ${text}`)));
  });
}

/** Its exit status; null where a signal ended it. */
async function stop(signal: NodeJS.Signals|null): Promise<number|null> {
  const process = serving;
  serving = null;
  if (!process) return null;
  const running = process.exitCode === null && process.signalCode === null;
  const ended = running ?
      new Promise<void>((done) => process.once('exit', () => done())) :
      Promise.resolve();
  if (signal) process.kill(signal);
  await ended;
  return process.exitCode;
}

before(async () => {
  writeFileSync(
      at('text.txt'), 'the light of the day and the king was in a light, '
                          .repeat(100));
  writeFileSync(at('run.json'), JSON.stringify(config));
  run('train', 'run.json', '--trace', 'run.trace');
  run('train', 'run.json', '--trace', 'other.trace', '--set',
      'memory.placement_policy=cpu');
  await startBrowser();
});
after(stopBrowser);
afterEach(async () => {
  await stop('SIGKILL');
});

async function untilDrawn(opened: Opened): Promise<void> {
  await opened.page.waitForFunction(
      () => window.castorViewer || document.querySelector('.failure'));
  await settle(opened.page);
  assert.equal(await opened.page.locator('.failure').count(), 0,
               await textOf(opened.page, '.failure'));
}

/** Spans of each view that the page shows. */
function spans(opened: Opened): Promise<number[]> {
  return opened.page.evaluate(
      () => window.castorViewer!.models.map(
          (model) => model.data.spans.count));
}

describe('Served', () => {
  it('the viewer draws what it fetches, under its policy', async () => {
    const url = await serve('trace', 'view', 'run.trace', '--port', '0');
    const opened = await openUrl(url);
    await untilDrawn(opened);
    assert.deepEqual(opened.errors, []);
    assert.deepEqual(opened.requests, [`${url}view.json`]);
    const data = await (await fetch(`${url}view.json`)).json();
    assert.ok(data.views[0].spans.start.length > 100);
    assert.deepEqual(await spans(opened), [data.views[0].spans.start.length]);
    await opened.page.close();
    assert.equal(await stop('SIGINT'), 0);
  });

  it('the viewer says why there is no trace any more', async () => {
    copyFileSync(at('run.trace'), at('gone.trace'));
    const url = await serve('trace', 'view', 'gone.trace', '--port', '0');
    unlinkSync(at('gone.trace'));
    const {page} = await openUrl(url);
    await page.waitForSelector('.failure');
    assert.match(await textOf(page, '.failure'), /gone\.trace.*No such file/);
    await page.close();
  });

  it('an exported page shows the same without a server', async () => {
    run('trace', 'export', 'run.trace', 'page.html', '--compare',
        'other.trace');
    const opened = await openUrl(pathToFileURL(at('page.html')).href);
    await untilDrawn(opened);
    assert.deepEqual(opened.errors, []);
    assert.deepEqual(opened.requests, []);
    assert.equal((await spans(opened)).length, 2);
    await opened.page.close();
  });

  it('the dashboard follows a run to its end', async () => {
    const url = await serve(
        'train', 'run.json', '--dashboard', '0', '--summary', 'summary.json',
        '--set', 'steps=4000');
    const opened = await openUrl(url);
    await opened.page.waitForFunction(
        () => /^finished/.test(
            document.querySelector('#state')?.textContent ?? ''),
        undefined, {timeout: 400_000});
    assert.equal(await stop(null), 0);
    const summary = readJson('summary.json');
    assert.match(await textOf(opened.page, '#figures'),
                 new RegExp(`loss${summary.final_loss.toFixed(4)}`));
    const label = await opened.page.getAttribute('.plot', 'aria-label');
    assert.match(label ?? '', /^Loss, step 1 to 4000;/);
    // The page goes on asking after the end: a browser tells that nobody is
    // there.
    assert.deepEqual(opened.errors.filter(
        (error) => !error.includes('ERR_CONNECTION_REFUSED')), []);
    await opened.page.close();
  });

  // What a page of another origin can try, even with an address that it knows.
  it('nothing is told to pages of others', async () => {
    const url = await serve('trace', 'view', 'run.trace', '--port', '0');
    const stranger = createServer((_, response) => {
      response.setHeader('Content-Type', 'text/html');
      response.end('<!doctype html><title>stranger</title>');
    });
    await new Promise<void>((done) => stranger.listen(0, '127.0.0.1', done));
    const port = (stranger.address() as AddressInfo).port;
    const {page} = await openUrl(`http://127.0.0.1:${port}/`);
    const tried = await page.evaluate(async (address) => {
      const outcome = (what: Promise<unknown>) =>
          what.then(() => 'told', () => 'refused');
      const element = (name: 'script'|'img', url: string) =>
          outcome(new Promise((done, fail) => {
            const made = document.createElement(name);
            made.onload = done;
            made.onerror = fail;
            made.src = url;
            document.body.append(made);
          }));
      const frame = document.createElement('iframe');
      frame.src = address;
      const loaded = new Promise((done) => frame.onload = done);
      document.body.append(frame);
      await loaded;
      let inside = 'refused';
      try {
        if (frame.contentWindow!.document.title) inside = 'told';
      } catch {
      }
      return {
        fetch: await outcome(fetch(`${address}view.json`)),
        script: await element('script', `${address}view.json`),
        picture: await element('img', address),
        frame: inside,
      };
    }, url);
    assert.deepEqual(tried, {
      fetch: 'refused', script: 'refused', picture: 'refused',
      frame: 'refused',
    });
    await page.close();
    stranger.close();
  });
});
