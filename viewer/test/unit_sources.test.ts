// The sources themselves: their types, their packages, their colours.
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {describe, it} from 'node:test';

import {luminance} from '../src/palette';

const root = process.env['VIEWER_ROOT']!;
const textOf = (name: string) => readFileSync(join(root, name), 'utf8');

describe('Sources', () => {
  it('pass the type checker', () => {
    const result = spawnSync(
        process.execPath,
        [join(root, 'node_modules/typescript/bin/tsc'), '--noEmit', '--project',
         root],
        {encoding: 'utf8'});
    assert.equal(result.status, 0, result.stdout + result.stderr);
  });

  it('never make markup of text', () => {
    const sources = spawnSync(
        'grep', ['-rnE', 'innerHTML|outerHTML|insertAdjacentHTML|' +
                 'document\\.write|eval\\(|new Function', join(root, 'src')],
        {encoding: 'utf8'});
    assert.equal(sources.status, 1, sources.stdout);
  });
});

describe('Packages', () => {
  it('are pinned, and say nothing of where they came from', () => {
    const lock = textOf('package-lock.json');
    assert.ok(!lock.includes('"resolved"'), 'the lock file names a registry');
    const {dependencies, devDependencies} = JSON.parse(textOf('package.json'));
    for (const [name, version] of Object.entries(
             {...dependencies, ...devDependencies})) {
      assert.match(String(version), /^\d+\.\d+\.\d+$/, name);
    }
  });
});

/** The colours of a theme, by name. */
function theme(dark: boolean): Map<string, string> {
  const css = textOf('src/palette.css');
  const blocks = [...css.matchAll(/:root[^{]*\{([^}]*)\}/g)];
  return new Map([...blocks[dark ? 1 : 0]![1]!.matchAll(
      /--([\w-]+): (#[0-9a-f]{6});/g)].map((m) => [m[1]!, m[2]!]));
}

function contrast(a: string, b: string): number {
  const [x, y] = [luminance(a) + 0.05, luminance(b) + 0.05];
  return Math.max(x, y) / Math.min(x, y);
}

/** sRGB to linear, 0 to 1. */
function linear(color: string): number[] {
  return [1, 3, 5].map((from) => {
    const value = parseInt(color.slice(from, from + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
}

/** What remains of a colour without one kind of cones (Viénot et al. 1999). */
function simulate(rgb: number[], kind: 'none'|'protan'|'deutan'): number[] {
  const [r, g, b] = rgb as [number, number, number];
  if (kind === 'protan') {
    const mixed = 0.11238 * r + 0.88762 * g;
    return [mixed, mixed, 0.00401 * r - 0.00401 * g + b];
  }
  if (kind === 'deutan') {
    const mixed = 0.29275 * r + 0.70725 * g;
    return [mixed, mixed, -0.02234 * r + 0.02234 * g + b];
  }
  return rgb;
}

/** CIE L*a*b*, in which distances are about as large as they look. */
function lab([r, g, b]: number[]): number[] {
  const f = (t: number) => t > 0.008856 ? Math.cbrt(t) : 7.787 * t + 16 / 116;
  const x = f((0.4124 * r! + 0.3576 * g! + 0.1805 * b!) / 0.9505);
  const y = f(0.2126 * r! + 0.7152 * g! + 0.0722 * b!);
  const z = f((0.0193 * r! + 0.1192 * g! + 0.9505 * b!) / 1.089);
  return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

function distance(a: string, b: string, kind: 'none'|'protan'|'deutan'):
    number {
  const [x, y] = [a, b].map((color) => lab(simulate(linear(color), kind)));
  return Math.hypot(...x!.map((value, i) => value - y![i]!));
}

for (const dark of [false, true]) {
  describe(`Colours (${dark ? 'dark' : 'light'})`, () => {
    const colors = theme(dark);
    const get = (name: string) => {
      const color = colors.get(name);
      assert.ok(color, `there is no --${name}`);
      return color;
    };

    it('let text be read', () => {
      for (const ground of ['page', 'panel', 'sunken', 'hover']) {
        assert.ok(contrast(get('text'), get(ground)) >= 7, `text on ${ground}`);
        assert.ok(contrast(get('soft'), get(ground)) >= 4.5,
                  `soft on ${ground}`);
      }
      for (const name of ['accent', 'good', 'bad', 'budget']) {
        assert.ok(contrast(get(name), get('panel')) >= 4.5, name);
      }
      assert.ok(contrast(get('on-accent'), get('accent')) >= 4.5);
    });

    // Neighbours in one picture, which must be told apart by everybody.
    const pictures: Record<string, string[]> = {
      categories: [0, 1, 2, 3, 4, 5].map((i) => `category-${i}`),
      compute: ['forward', 'backward', 'optimizer', 'wait', 'faint'],
      copies: ['fetch', 'copy_back', 'wait', 'faint'],
      host: ['reduce', 'update', 'wait', 'faint'],
      network: ['gather', 'exchange', 'wait', 'faint'],
      states: ['arriving', 'hold', 'compute', 'gradients', 'leaving'].map(
          (name) => `state-${name}`).concat('panel'),
      'states on the host': ['state-reducing', 'state-updating', 'panel'],
    };
    for (const [picture, names] of Object.entries(pictures)) {
      it(`tell ${picture} apart without red or green cones`, () => {
        for (const kind of ['none', 'protan', 'deutan'] as const) {
          names.forEach((a, i) => names.slice(i + 1).forEach((b) => {
            const apart = distance(get(a), get(b), kind);
            assert.ok(apart >= 13,
                      `${a} and ${b}, ${kind}: ${apart.toFixed(1)}`);
          }));
        }
      });
    }
  });
}
