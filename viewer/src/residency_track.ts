// A row per chunk: when it was on the device and in what state, and when the
// host worked on it. What is at home on the host and idle is left empty, so
// that fetches and evictions show as edges.
import {fitting} from './canvas';
import {clipName} from './format';
import {type Box, type Frame, drawSteps, gutter, kFont, within} from './track';

const kLeastRow = 3;
const kMostRow = 22;

/** The height that rows can make use of. */
export function mostHeight(rows: number): number {
  return rows * kMostRow;
}

/** Rows fill the box; where they cannot, they scroll. */
export function rowHeight(box: Box, rows: number): number {
  const fit = box.height / Math.max(1, rows);
  const height = Math.min(kMostRow, Math.max(kLeastRow, fit));
  // Whole pixels where there is room for them: crisp edges.
  return height >= 8 ? Math.floor(height) : height;
}

export function chunkAt(box: Box, rows: number, scroll: number, y: number):
    number {
  if (y < box.y || y >= box.y + box.height) return -1;
  const row = Math.floor((y - box.y + scroll) / rowHeight(box, rows));
  return row >= 0 && row < rows ? row : -1;
}

export function drawResidency(frame: Frame, box: Box, scroll: number): void {
  const {context, palette, model, axis, width, hits} = frame;
  const {states, residency} = model.data;
  const rows = model.chunkCount;
  const height = rowHeight(box, rows);
  const first = Math.max(0, Math.floor(scroll / height));
  const last = Math.min(rows, Math.ceil((scroll + box.height) / height));
  const colors = states.map((state) => palette.state(state.name));
  colors.push(palette.color('other'));
  // The host's work is drawn thinner: the chunk is not on the device then.
  const onHost = states.map((state) => state.tier === 'host');
  onHost.push(false);
  const unknown = states.length;
  const every = Math.max(1, Math.ceil((kFont + 1) / height));
  const bar = Math.max(1, height - (height >= 8 ? 2 : height >= 6 ? 1 : 0.5));

  within(frame, box, () => {
    for (let chunk = first; chunk < last; chunk++) {
      const y = box.y + chunk * height - scroll;
      const dim = hits !== null && hits.chunks.size > 0 &&
          !hits.chunks.has(chunk);
      context.globalAlpha = dim ? 0.3 : 1;
      context.fillStyle = palette.color('faint');
      context.fillRect(0, y + bar - 1, width, 1);
      const paint = (state: number, x: number, right: number) => {
        context.fillStyle = colors[state]!;
        if (onHost[state]) {
          const thin = Math.max(1, bar * 0.45);
          context.fillRect(x, y + (bar - thin) / 2, right - x, thin);
        } else {
          context.fillRect(x, y, right - x, bar);
        }
      };
      const classOf = (item: number) => {
        const state = residency.state[item]!;
        return state < 0 ? unknown : state;
      };
      model.chunkRows[chunk]!.draw(
          axis, width, colors.length, classOf,
          (item, x, right) => paint(classOf(item), x, right), paint);
      context.globalAlpha = 1;
      if (chunk === frame.selectedChunk) {
        context.lineWidth = 1;
        context.strokeStyle = palette.color('select');
        context.strokeRect(-2, y - 0.5, width + 4, bar + 1);
      }
    }
    drawSteps(frame, box);
  });

  context.save();
  context.beginPath();
  context.rect(0, box.y, gutter, box.height);
  context.clip();
  context.font = palette.font(Math.min(kFont, Math.max(9, height)));
  context.textBaseline = 'middle';
  for (let chunk = first; chunk < last; chunk++) {
    const selected = chunk === frame.selectedChunk;
    const hit = hits?.chunks.has(chunk) ?? false;
    // Where numbers are close, the selected one takes its neighbours' room.
    const covered = !selected && frame.selectedChunk >= 0 &&
        Math.abs(chunk - frame.selectedChunk) * height < kFont;
    if (chunk % every !== 0 && !selected || covered) continue;
    // The topmost number is not cut by the edge.
    const y = Math.max(box.y + 5, box.y + chunk * height - scroll + bar / 2 + 0.5);
    if (selected || hit) {
      const tall = Math.max(bar + 1, selected ? kFont : 1);
      context.fillStyle = palette.color(selected ? 'accent' : 'hover');
      context.fillRect(0, y - tall / 2, gutter - 3, tall);
    }
    context.fillStyle =
        palette.color(selected ? 'on-accent' : hit ? 'text' : 'soft');
    context.textAlign = 'right';
    context.fillText(String(chunk), gutter - 7, y);
    if (every === 1) {
      context.textAlign = 'left';
      const name = model.parameters(chunk)[0] ?? '';
      context.fillText(
          clipName(name, fitting(gutter - 34, kFont)), 4, y);
    }
  }
  context.restore();
}
