// Runs one suite of the viewer's tests: node test/run.mjs unit|browser, or
// served CASTOR, where CASTOR is the program that serves the pages.
//
// Bundles test/SUITE_*.test.ts and runs it by node's own test runner. With
// XML_OUTPUT_FILE set, as Bazel sets it, writes what passed and what failed
// there as JUnit's XML, so that each case counts.
import {spawnSync} from 'node:child_process';
import {mkdtempSync, readdirSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';
import {fileURLToPath, pathToFileURL} from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Packages are taken from node_modules, wherever the bundle is put. */
const packagesFromHere = {
  name: 'packages-from-here',
  setup(build) {
    build.onResolve({filter: /^(playwright-core|esbuild)$/}, (args) => ({
      path: import.meta.resolve ? import.meta.resolve(args.path) :
          pathToFileURL(join(root, 'node_modules', args.path)).href,
      external: true,
    }));
  },
};

const suite = process.argv[2];
const bench = suite === 'bench';
const castor = suite === 'served' ? process.argv[3] : undefined;
if (!['unit', 'browser', 'served', 'bench'].includes(suite) ||
    (suite === 'served' && castor === undefined)) {
  console.error(
      'usage: node test/run.mjs unit|browser|served CASTOR|bench [PAGE]');
  process.exit(2);
}
let esbuild;
try {
  esbuild = await import('esbuild');
} catch {
  console.error(`the packages of ${root}package-lock.json are not installed; ` +
      `run tools/setup.sh`);
  process.exit(1);
}
const folder = mkdtempSync(
    join(process.env.TEST_TMPDIR ?? tmpdir(), 'viewer-tests-'));
let status = 1;
try {
  const entries = readdirSync(join(root, 'test'))
      .filter((name) => bench ? name === 'bench.ts' :
          name.endsWith('.test.ts') && name.startsWith(suite))
      .map((name) => join(root, 'test', name));
  await esbuild.build({
    entryPoints: entries, bundle: true, platform: 'node', format: 'esm',
    target: 'node18', outdir: folder, outExtension: {'.js': '.mjs'},
    sourcemap: 'inline', plugins: [packagesFromHere], logLevel: 'warning',
    define: {'process.env.VIEWER_ROOT': JSON.stringify(root)},
  });
  const reporters =
      ['--test-reporter=spec', '--test-reporter-destination=stdout'];
  if (process.env.XML_OUTPUT_FILE) {
    reporters.push(
        `--test-reporter=${new URL('junit.mjs', import.meta.url).href}`,
        `--test-reporter-destination=${process.env.XML_OUTPUT_FILE}`);
  }
  const files = readdirSync(folder).map((name) => join(folder, name));
  const how = bench ? [files[0], ...process.argv.slice(3)] :
                      [...reporters, '--test', ...files];
  const result = spawnSync(
      process.execPath, ['--enable-source-maps', ...how],
      {stdio: 'inherit', env: {
        ...process.env,
        VIEWER_TEST_TMP: folder,
        ...(castor ? {CASTOR: resolve(castor)} : {}),
      }});
  status = result.status ?? 1;
} finally {
  rmSync(folder, {recursive: true, force: true});
}
process.exit(status);
