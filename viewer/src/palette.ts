// The colours of palette.css for canvases, which know no style sheets.
import type {Theme} from './hash';

export interface Palette {
  color(name: string): string;
  category(index: number): string;
  state(name: string): string;
  /** Text that can be read on a colour. */
  on(color: string): string;
  /** Stripes on the colour of waits. */
  waitPattern(context: CanvasRenderingContext2D): CanvasPattern|string;
  font(size: number): string;
}

export const kCategoryColors = 8;
const kKnownStates = new Set([
  'arriving', 'hold', 'compute', 'gradients', 'leaving', 'reducing', 'updating',
]);
export function stateColorName(name: string): string {
  return `state-${kKnownStates.has(name) ? name : 'other'}`;
}

/** How light a colour "#rrggbb" is, from 0 to 1 (WCAG's relative luminance). */
export function luminance(color: string): number {
  const channel = (from: number) => {
    const value = parseInt(color.slice(from, from + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
}

export function readPalette(): Palette {
  const style = getComputedStyle(document.documentElement);
  const cache = new Map<string, string>();
  const read = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const color = (name: string) => {
    let value = cache.get(name);
    if (value === undefined) {
      value = read(name) || read('other');  // a view may name anything
      cache.set(name, value);
    }
    return value;
  };
  const family = getComputedStyle(document.body).fontFamily;
  const readable = new Map<string, string>();
  let pattern: CanvasPattern|null = null;
  return {
    color,
    category: (index) => color(`category-${index % kCategoryColors}`),
    state: (name) => color(stateColorName(name)),
    on: (value) => {
      let result = readable.get(value);
      if (result === undefined) {
        // At 0.18 black and white have the same contrast.
        result = luminance(value) > 0.18 ? '#101418' : '#ffffff';
        readable.set(value, result);
      }
      return result;
    },
    waitPattern: (context) => {
      if (pattern) return pattern;
      const tile = document.createElement('canvas');
      tile.width = tile.height = 6;
      const on = tile.getContext('2d');
      if (!on) return color('wait');
      on.fillStyle = color('wait');
      on.fillRect(0, 0, 6, 6);
      on.strokeStyle = color('wait-stripe');
      on.globalAlpha = 0.38;
      on.lineWidth = 1.6;
      on.beginPath();
      for (const shift of [-6, 0, 6]) {
        on.moveTo(shift - 1, 7);
        on.lineTo(shift + 7, -1);
      }
      on.stroke();
      pattern = context.createPattern(tile, 'repeat');
      return pattern ?? color('wait');
    },
    font: (size) => `${size}px ${family}`,
  };
}

export function applyTheme(theme: Theme): void {
  const dark = theme === 'dark' ||
      (theme === 'auto' && matchMedia('(prefers-color-scheme: dark)').matches);
  document.documentElement.dataset['theme'] = dark ? 'dark' : 'light';
}
