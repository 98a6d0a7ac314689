// Pages in headless Chromium: the built viewer with a view inside, opened as a
// file, and what a person would see and do there.
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {existsSync, mkdtempSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {pathToFileURL} from 'node:url';

import {
  type Browser, type BrowserContext, chromium, type Page,
} from 'playwright-core';

import {kStrip} from '../src/memory_track';

const root = process.env['VIEWER_ROOT']!;
const folder = mkdtempSync(
    join(process.env['VIEWER_TEST_TMP'] ?? tmpdir(), 'pages-'));

let browser: Browser|null = null;
/** One for all pages: they keep nothing, and a new one takes its time. */
let context: BrowserContext|null = null;
let pages = 0;
const built = new Map<string, string>();

/** $CHROMIUM, or the chromium of the path. */
function findChromium(): string {
  const named = process.env['CHROMIUM'];
  const which = named ? {stdout: named} :
                        spawnSync('which', ['chromium'], {encoding: 'utf8'});
  const path = which.stdout.trim();
  assert.ok(path && existsSync(path),
            'there is no chromium to show the page in; run ' +
                'tools/setup.sh --tests, or name one in $CHROMIUM');
  return path;
}

export async function startBrowser(): Promise<void> {
  browser = await chromium.launch({
    executablePath: findChromium(),
    args: [
      '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage',
      '--disable-background-networking',
    ],
  });
  context = await browser.newContext({deviceScaleFactor: 1});
}

export async function stopBrowser(): Promise<void> {
  await browser?.close();
  browser = null;
}

/** The page as the build makes it. */
export async function pageText(entry = 'main.ts'): Promise<string> {
  let text = built.get(entry);
  if (!text) {
    const build = pathToFileURL(join(root, 'build.mjs')).href;
    const {buildPage} = await import(build);
    text = await buildPage(join(root, 'src', entry)) as string;
    built.set(entry, text);
  }
  return text;
}

/** As PageWithData (page.h) does it. */
export function withData(page: string, data: unknown): string {
  const json = JSON.stringify(data).replaceAll('<', '\\u003c');
  return page.replace('id="castor-data">', () => `id="castor-data">${json}`);
}

export interface Opened {
  page: Page;
  /** Errors of scripts and of the console. */
  errors: string[];
  /** Addresses that the page asked for, itself left out. */
  requests: string[];
  url: string;
}

export interface OpenOptions {
  hash?: string;
  width?: number;
  height?: number;
  scheme?: 'light'|'dark';
}

export async function openUrl(url: string, options: OpenOptions = {}):
    Promise<Opened> {
  const page = await context!.newPage();
  await page.setViewportSize(
      {width: options.width ?? 1280, height: options.height ?? 800});
  await page.emulateMedia({colorScheme: options.scheme ?? 'light'});
  page.setDefaultTimeout(60_000);
  const errors: string[] = [];
  const requests: string[] = [];
  page.on('pageerror', (error) => errors.push(String(error)));
  page.on('console', (message) => {
    if (message.type() === 'error') errors.push(message.text());
  });
  page.on('request', (request) => {
    const asked = request.url();
    if (asked.split('#')[0] !== url && !asked.startsWith('data:')) {
      requests.push(asked);
    }
  });
  await page.goto(url + (options.hash ? `#${options.hash}` : ''));
  return {page, errors, requests, url};
}

/** Opens the viewer with the data; returns when it has drawn. */
export async function open(data: unknown, options: OpenOptions = {}):
    Promise<Opened> {
  const file = join(folder, `page-${pages++}.html`);
  writeFileSync(file, withData(await pageText(), data));
  const opened = await openUrl(pathToFileURL(file).href, options);
  await opened.page.waitForFunction(
      () => window.castorViewer || document.querySelector('.failure'));
  await settle(opened.page);
  return opened;
}

/** Until what was asked for has been drawn. */
export async function settle(page: Page): Promise<void> {
  await page.evaluate(() => new Promise<void>(
      (done) => requestAnimationFrame(() => requestAnimationFrame(
          () => done()))));
}

/** Nothing failed and nothing was loaded. Closes the page. */
export async function close(opened: Opened): Promise<void> {
  assert.deepEqual(opened.errors, []);
  assert.deepEqual(opened.requests, []);
  await opened.page.close();
}

/** The hash, of all steps unless it says which. */
export function ofAll(hash: string): string {
  return /(^|&)t=/.test(hash) ? hash : hash ? `t=all&${hash}` : 't=all';
}

export interface Shown {
  start: number;
  end: number;
  selection: unknown;
  hits: number[];
  rows: number;
  tab: string;
  theme: string|undefined;
}

/** The page's own account of what it shows. */
export function shown(page: Page): Promise<Shown> {
  return page.evaluate(() => {
    const app = window.castorViewer!;
    const {axis} = app.timeline;
    return {
      start: axis.start, end: axis.end, selection: app.state.selection,
      hits: app.hits.map((hits) => hits?.spans.length ?? 0),
      rows: app.tables.order.length, tab: app.state.tab,
      theme: document.documentElement.dataset['theme'],
    };
  });
}

/** Where the pictures of a pane are on the page, in pixels. */
export interface Places {
  left: number;
  top: number;
  width: number;
  memory: {y: number, height: number};
  lanes: {y: number, height: number};
  residency: {y: number, height: number};
  /** Bytes at the top of the memory's picture. */
  memoryTop: number;
}

export async function places(page: Page, pane = 0): Promise<Places> {
  return page.evaluate(([index, strip]) => {
    const timeline = window.castorViewer!.timeline as any;
    const of = timeline.panes[index];
    const box = of.overlay.canvas.getBoundingClientRect();
    return {
      left: box.left + 124, top: box.top, width: of.width,
      memory: {
        y: of.memoryBox.y + strip, height: of.memoryBox.height - strip,
      },
      lanes: of.lanesBox, residency: of.residencyBox,
      memoryTop: timeline.scale.top,
    };
  }, [pane, kStrip] as const);
}

/**
 * The colours of a row or a column of a pane's pixels, as "#rrggbb". Column: x
 * and from y; row: y and from x; counted from the canvas's corner.
 */
export function pixels(
    page: Page, x: number, y: number, width: number, height: number,
    pane = 0): Promise<string[]> {
  return page.evaluate(([index, x, y, width, height]) => {
    const of = window.castorViewer!.timeline.panes[index] as any;
    const {data} = of.base.context.getImageData(x, y, width, height);
    const colors: string[] = [];
    for (let i = 0; i < data.length; i += 4) {
      colors.push('#' + [data[i], data[i + 1], data[i + 2]].map(
          (value: number) => value.toString(16).padStart(2, '0')).join(''));
    }
    return colors;
  }, [pane, Math.round(x), Math.round(y), width, height] as const);
}

/** A colour of the current theme. */
export function color(page: Page, name: string): Promise<string> {
  return page.evaluate(
      (of) => getComputedStyle(document.documentElement)
                  .getPropertyValue(`--${of}`).trim(), name);
}

/** The rows of the table that are in the document, as text. */
export function tableRows(page: Page): Promise<string[][]> {
  return page.$$eval('.tables .row', (rows) => rows.map(
      (row) => [...row.children].map((cell) => cell.textContent ?? '')));
}

export function textOf(page: Page, selector: string): Promise<string> {
  return page.$$eval(
      selector, (found) => found.map((e) => e.textContent).join('\n'));
}
