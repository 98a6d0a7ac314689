// What is known of the thing under the pointer or selected: an operator, a
// copy, a wait, a chunk, a point of the memory's curve.
import type {Table} from './data';
import {breakable, h, swatch} from './dom';
import {
  changeText, clip, formatBytes, formatCount, formatFlops, formatShare,
  formatTime,
} from './format';
import type {Selection} from './hash';
import {budgetAt, changeBefore, pointAt} from './memory_track';
import type {Model} from './model';
import {kCategoryColors, stateColorName} from './palette';
import {exactTime} from './scale';

export type Select = (selection: Selection) => void;

const kMaxParameters = 40;

class Card {
  readonly rows: HTMLElement[] = [];

  constructor(private readonly select: Select) {}

  row(name: string, ...value: (Node|string|null)[]): void {
    const shown = value.filter((part): part is Node|string => part !== null &&
        part !== '');
    if (shown.length === 0) return;
    this.rows.push(h('dt', {}, name), h('dd', {}, ...shown.map(
                                  (part) => typeof part === 'string' ?
                                      breakable(part) :
                                      part)));
  }

  link(text: string, to: Selection, title = ''): HTMLElement {
    return h('button', {
      class: 'link', type: 'button', title: title || undefined,
      click: () => this.select(to),
    }, breakable(clip(text, 120)));
  }

  done(kind: string, title: string, color: string, ...more: HTMLElement[]):
      HTMLElement {
    return h(
        'div', {class: 'card'},
        h('div', {class: 'kind'}, swatch(color, kind === 'wait'), kind),
        h('h3', {title: clip(title, 500)}, breakable(title)), ...more,
        h('dl', {}, ...this.rows));
  }
}

export function details(
    model: Model, selection: Selection, select: Select): HTMLElement|null {
  switch (selection.kind) {
    case 'span':
      return spanDetails(model, selection.view, selection.index, select);
    case 'chunk':
      return chunkDetails(
          model, selection.view, selection.chunk, selection.time, select);
    case 'memory':
      return memoryDetails(model, selection.view, selection.index, select);
  }
}

function spanDetails(
    model: Model, view: number, index: number, select: Select):
    HTMLElement|null {
  const {spans, steps, tables, plans} = model.data;
  if (index >= spans.count) return null;
  const card = new Card(select);
  const start = spans.start[index]!;
  const duration = spans.end[index]! - start;
  const step = spans.step[index]!;
  const moment = spans.moment[index]!;
  const chunk = spans.chunk[index]!;
  const kind = model.kindName(index);
  const op = model.op(step, moment);
  const from = steps[step]?.start;
  const wait = kind === 'wait';
  const span = (to: number) => ({kind: 'span' as const, view, index: to});

  const note = model.note(index);
  const more = note ? [h('p', {class: wait ? 'why cause' : 'why'}, note)] : [];
  card.row('time', formatTime(duration));
  const cause = spans.cause[index]!;
  if (cause >= 0) {
    card.row('waited for', card.link(
        `${model.label(cause)} → ${model.laneName(spans.stream[cause]!)}`,
        span(cause), 'show what it waited for'));
  }
  const late = spans.lateRank[index]!;
  if (late >= 0) card.row('waited for', `rank ${formatCount(late)}`);
  card.row(
      'from', exactTime(start),
      from === undefined ? null : ` (step + ${formatTime(start - from)})`);
  card.row('lane', model.laneName(spans.stream[index]!));
  if (step >= 0) {
    const plan = model.plan(step);
    const warmup = plan?.warmup ? ' (warm-up)' : '';
    const placed = plan?.plannedAddresses ? ', addresses planned' : '';
    card.row('step', model.stepName(step) +
        (plan ? `, plan ${plan.policy}${warmup}${placed}` : ''));
  }
  if (moment >= 0) {
    card.row(
        'moment', formatCount(moment),
        op && kind !== 'operator' ? ` ${clip(op.name, 200)}` : null);
  }
  if (op && (kind === 'operator' || kind === 'reduce' || kind === 'update')) {
    card.row('phase', op.phase);
    card.row('shapes', op.shapes);
    if (kind === 'operator') {
      card.row('non-model', formatBytes(op.nonModelPeakBytes));
      card.row('workspace', formatBytes(op.workspaceBytes));
      if (op.flops > 0) {
        card.row('computes', formatFlops(op.flops), duration > 0 ?
            ` at ${formatFlops(op.flops / duration * 1e9)}/s` : null);
      }
      const bytes = bytesAt(model, step, moment, start);
      card.row('device in use', bytes < 0 ? null : formatBytes(bytes));
    }
    const program = plans[steps[step]?.plan ?? -1]?.program ?? -1;
    card.row('its runs', runsOf(tables.operators, program, moment));
    if (op.chunks.length > 0) {
      card.row('chunks', ...op.chunks.slice(0, 12).map((c) => card.link(
          `${c}${op.writes.includes(c) ? ' (written)' : ''}`,
          {kind: 'chunk', view, chunk: c, time: Math.round(start)})));
    }
  } else if (chunk >= 0) {
    card.row('chunk', card.link(
        `${chunk}  ${model.parameters(chunk, step)[0] ?? ''}`,
        {kind: 'chunk', view, chunk, time: Math.round(spans.end[index]!)}));
  }
  const bytes = spans.bytes[index]!;
  if (bytes > 0) {
    card.row('bytes', formatBytes(bytes), duration > 0 ?
        ` at ${formatBytes(bytes / duration * 1e9)}/s` : null);
  }
  const because = spans.because[index]!;
  const needed = model.op(step, because);
  if (needed) {
    const at = model.opSpan(step, because, index);
    card.row('for', at >= 0 ? card.link(needed.name, span(at)) :
                              clip(needed.name, 200));
  }
  return card.done(
      kind.replaceAll('_', ' '), model.label(index), model.colorName(index),
      ...more);
}

function runsOf(table: Table, program: number, moment: number): string {
  const {count, mean_ns, max_ns} = table.columns;
  if (!count || !mean_ns || !max_ns) return '';
  const programs = table.columns['program'] as ArrayLike<number>|undefined;
  const moments = table.columns['moment'] as ArrayLike<number>|undefined;
  for (let row = 0; row < table.rows; row++) {
    if (programs?.[row] === program && moments?.[row] === moment) {
      return `${formatCount(count[row] as number)} in all, mean ${
          formatTime(mean_ns[row] as number)}, longest ${
          formatTime(max_ns[row] as number)}`;
    }
  }
  return '';
}

/** The device's bytes when an operator was issued; -1: not in the trace. */
function bytesAt(
    model: Model, step: number, moment: number, near: number): number {
  const {memory} = model.data;
  // Issued some time before it ran.
  for (let i = pointAt(memory, near), left = 4096; i >= 0 && left > 0;
       i--, left--) {
    if (memory.op[i] === moment && memory.step[i] === step) {
      return memory.total[i]!;
    }
  }
  return -1;
}

function chunkDetails(
    model: Model, view: number, chunk: number, time: number, select: Select):
    HTMLElement|null {
  if (chunk >= model.chunkCount) return null;
  const {residency, states, steps, spans, tables} = model.data;
  const card = new Card(select);
  const step = Math.max(0, model.stepAt(time));
  const info = (model.program(step) ?? model.data.programs[0])?.chunks[chunk];
  const interval = model.residencyAt(chunk, time);
  const state = interval >= 0 ? states[residency.state[interval]!] : undefined;
  card.row(
      'at', exactTime(time),
      steps[step] && time >= steps[step]!.start && time < steps[step]!.end ?
          ` (${model.stepName(step)})` : null);
  const held = interval >= 0 ?
      `, for ${formatTime(residency.end[interval]! -
                          residency.start[interval]!)}` : '';
  card.row('state', state ? `${clip(state.name, 80)} (${state.tier})${held}` :
                            'at home on the host, idle');
  card.row('copy', state ? cleanness(model, chunk, interval) :
                           'none on the device');
  const next = model.nextUse(chunk, time);
  if (next) {
    const start = next.span >= 0 ? spans.start[next.span]! - time : NaN;
    card.row(
        'next use', next.span >= 0 ?
            card.link(next.op.name, {kind: 'span', view, index: next.span}) :
            clip(next.op.name, 200),
        ` in ${formatCount(next.ahead)} operator${
            next.ahead === 1 ? '' : 's'}` +
            (Number.isFinite(start) ? `, ${formatTime(start)}` : ''));
  }
  const moves = model.spansOfChunk(chunk).filter((i) => model.movesChunk(i));
  const last = moves.filter((i) => spans.start[i]! <= time).at(-1);
  const following = moves.find((i) => spans.start[i]! > time);
  const move = (name: string, i: number|undefined) => {
    if (i === undefined) return;
    const note = model.note(i);
    card.row(name, card.link(
        `${model.kindName(i).replaceAll('_', ' ')} at ${
            exactTime(Math.round(spans.start[i]! / 1e3) * 1e3)}`,
        {kind: 'span', view, index: i}), note ? ` ${note}` : null);
  };
  move('last moved', last);
  move('next moved', following);
  if (info) {
    card.row('payload', formatBytes(info.payloadBytes));
    card.row('optimizer states', formatBytes(info.optimizerBytes),
             model.plan(step) ? (model.plan(step)!.deviceSide.includes(chunk) ?
                 ' on the device' : ' on the host') : null);
  }
  const table = tables.chunks.columns;
  const row = rowOf(table['chunk'] as ArrayLike<number>|undefined, chunk);
  if (row >= 0) {
    const number = (key: string) =>
        (table[key] as ArrayLike<number>|undefined)?.[row] ?? 0;
    card.row('fetched', `${formatCount(number('fetches'))} times, ${
        formatBytes(number('fetched_bytes'))}`);
    card.row('copied back', formatBytes(number('copied_back_bytes')));
    const resident = formatShare(number('resident_share'), 1);
    card.row('on the device', `${resident} of the time`);
    card.row('waited for', formatTime(number('wait_ns')));
  }
  const parameters = info?.parameters ?? [];
  const activations = (info?.block ?? -1) >= 0;
  const list = h('ul', {class: 'names'});
  for (const name of parameters.slice(0, kMaxParameters)) {
    list.append(h('li', {}, name));
  }
  if (parameters.length > kMaxParameters) {
    list.append(h('li', {}, `and ${
        formatCount(parameters.length - kMaxParameters)} more`));
  }
  card.row(activations ? 'holds' :
                         `parameters (${formatCount(parameters.length)})`, list);
  return card.done(
      'chunk', `chunk ${chunk}`, stateColorName(state?.name ?? ''));
}

function cleanness(model: Model, chunk: number, interval: number): string {
  const {residency, states} = model.data;
  const name = (i: number) => states[residency.state[i]!]?.name ?? '';
  const state = name(interval);
  if (states[residency.state[interval]!]?.tier === 'host') {
    return 'none on the device';
  }
  if (state === 'gradients') return 'dirty: it carries gradients';
  if (state === 'leaving') return 'dirty: being written back';
  if (state === 'compute') {
    const op = model.operatorAt(residency.start[interval]!);
    const {spans} = model.data;
    const writes = op >= 0 &&
        model.op(spans.step[op]!, spans.moment[op]!)?.writes.includes(chunk);
    if (writes) return 'dirty: the operator writes it';
  }
  return 'clean: equal to the host\'s, can be dropped for nothing';
}

function rowOf(column: ArrayLike<number>|undefined, value: number): number {
  if (!column) return -1;
  if (column[value] === value) return value;
  for (let i = 0; i < column.length; i++) {
    if (column[i] === value) return i;
  }
  return -1;
}

function memoryDetails(
    model: Model, view: number, index: number, select: Select):
    HTMLElement|null {
  const {memory, categories, run, predictedMemory, spans} = model.data;
  if (index >= memory.time.length) return null;
  const card = new Card(select);
  const time = memory.time[index]!;
  const step = memory.step[index]!;
  const op = model.op(step, memory.op[index]!);
  const n = categories.length;
  const total = memory.total[index]!;
  card.row('time', exactTime(time), step >= 0 ? ` (${model.stepName(step)})` :
                                                null);
  if (op) {
    const from = model.operatorAt(time);
    const span = model.opSpan(step, memory.op[index]!, Math.max(0, from));
    card.row('operator', span >= 0 && span < spans.count ?
        card.link(op.name, {kind: 'span', view, index: span}) :
        clip(op.name, 200));
    card.row('shapes', op.shapes);
  }
  categories.forEach((name, c) => card.rows.push(
      h('dt', {}, swatch(`category-${c % kCategoryColors}`), clip(name, 60)),
      h('dd', {}, formatBytes(memory.bytes[index * n + c]!))));
  const kept = op?.keptBytes ?? 0;
  const leaving =
      model.plan(step)?.activationBytes[memory.op[index]!] ?? 0;
  if (kept > 0) card.row('kept by blocks', `${formatBytes(kept)} of activations`);
  if (leaving > 0) {
    card.row('may leave', `${formatBytes(leaving)} of activations`);
  }
  const plan = pointAt(predictedMemory, time);
  if (plan >= 0) {
    card.row('plan foresaw', formatBytes(predictedMemory.total[plan]!));
  }
  const budget = budgetAt(model.data, time);
  if (budget) {
    card.row('free of the budget', `${formatBytes(budget - total)} of ${
        formatBytes(budget)}`);
  }
  const change = changeBefore(model.data.budgets, time);
  if (change) {
    card.row('budget changed',
             `${changeText(change)}, after step ${change.step}`);
  }
  const {hostMemory} = model.data;
  const host = pointAt(hostMemory, time);
  if (host >= 0) {
    const most = run?.hostBudgetBytes;
    card.row('host in use', formatBytes(hostMemory.total[host]!) +
        (most ? ` of ${formatBytes(most)}` : ''));
  }
  return card.done(
      'device memory', formatBytes(total), 'category-0');
}

/** A few lines beside the pointer. */
export function tooltip(model: Model, selection: Selection): string[] {
  const {spans, memory, residency, states} = model.data;
  if (selection.kind === 'span') {
    const i = selection.index;
    const bytes = spans.bytes[i]!;
    return [
      clip(model.label(i), 100),
      formatTime(spans.end[i]! - spans.start[i]!) +
          (bytes > 0 ? ` · ${formatBytes(bytes)}` : ''),
      clip(model.note(i), 160),
    ].filter((line) => line !== '');
  }
  if (selection.kind === 'memory') {
    const op = model.op(memory.step[selection.index]!,
                        memory.op[selection.index]!);
    return [
      formatBytes(memory.total[selection.index]!), clip(op?.name ?? '', 100),
    ].filter((line) => line !== '');
  }
  const i = model.residencyAt(selection.chunk, selection.time);
  const state = i >= 0 ? states[residency.state[i]!] : undefined;
  return [
    `chunk ${selection.chunk} · ${
        state ? clip(state.name, 40) : 'at home on the host'}`,
    clip(model.parameters(selection.chunk)[0] ?? '', 100),
  ].filter((line) => line !== '');
}
