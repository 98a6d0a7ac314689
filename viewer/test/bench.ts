// How long frames take, in headless Chromium without a GPU: npm run bench
// [FILE]
//
// FILE is an exported page; without it, the fixture of 100,000 events. For each
// movement of the view: ms of script to draw a frame, and ms between frames
// (16.7 is the screen's rate; more means that frames were left out).
import {resolve} from 'node:path';
import {pathToFileURL} from 'node:url';

import * as fixtures from './fixtures';
import {open, openUrl, startBrowser, stopBrowser} from './harness';

await startBrowser();
const file = process.argv[2];
const opened = file ? await openUrl(pathToFileURL(resolve(file)).href) :
                      await open({views: [fixtures.makeLarge()]});
await opened.page.waitForFunction(() => window.castorViewer);
const rows = await opened.page.evaluate(async () => {
  const {timeline, models} = window.castorViewer!;
  const {axis} = timeline;
  const frame = () =>
      new Promise<number>((done) => requestAnimationFrame(done));
  const spread = (values: number[]) => {
    const sorted = [...values].sort((a, b) => a - b);
    const at = (share: number) =>
        sorted[Math.floor(share * (sorted.length - 1))]!.toFixed(1);
    return `${at(0.5)} (${at(0.05)} to ${at(0.95)})`;
  };
  const measure = async (
      name: string, zoom: number, move: (i: number) => void) => {
    axis.fit();
    if (zoom < 1) axis.zoom(zoom);
    timeline.moved();
    await frame();
    await frame();
    timeline.frameTimes.length = 0;
    const gaps: number[] = [];
    let last = await frame();
    for (let i = 0; i < 240; i++) {
      move(i);
      timeline.moved();
      const now = await frame();
      gaps.push(now - last);
      last = now;
    }
    return `${name.padEnd(22)} ${spread(timeline.frameTimes).padEnd(20)} ${
        spread(gaps)}`;
  };
  const pan = (i: number) => axis.pan(i % 60 < 30 ? 0.01 : -0.01);
  return [
    `${models[0]!.data.spans.count} events, ${
        models[0]!.data.residency.count} intervals of residency`,
    'ms: median (5 % to 95 %)  drawing           between frames',
    await measure('all, zooming a little', 1,
                  (i) => axis.zoom(i % 2 ? 0.98 : 1 / 0.98)),
    await measure('a half, panning', 0.5, pan),
    await measure('a tenth, panning', 0.1, pan),
    await measure('a hundredth, panning', 0.01, pan),
    await measure('zooming in and out', 1,
                  (i) => axis.zoom(i % 120 < 60 ? 0.9 : 1 / 0.9)),
  ];
});
console.log(rows.join('\n'));
await stopBrowser();
