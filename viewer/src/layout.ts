// What goes where on the page: it depends on what the views hold.
import {comparisonPanel} from './compare';
import type {Loaded, ViewData} from './data';
import {h} from './dom';
import {clip} from './format';
import {kTabs} from './hash';
import type {Model} from './model';
import {refusalPanel, summaryPanel} from './summary';

export interface Parts {
  header: HTMLElement;
  /** What part of the trace the pictures show. */
  range: HTMLElement;
  timeline: HTMLElement;
  tables: HTMLElement;
  /** The panel at the side, and in it what is selected. */
  side: HTMLElement;
  details: HTMLElement;
  tip: HTMLElement;
  help: HTMLElement;
}

/** "A: " and "B: " where there are two. */
function letter(views: ViewData[], index: number): string {
  return views.length > 1 ? `${'AB'[index]}: ` : '';
}

/** What is said where not all ranks are there. */
function missing({views, ranks, comparison}: Loaded): string {
  const run = views[0]!.run;
  if (comparison || !run || run.worldSize <= Math.max(1, ranks.length)) {
    return '';
  }
  const here = ranks.length > 1 ? `${ranks.length} ranks` : `rank ${run.rank}`;
  return `Of ${run.worldSize} ranks this trace holds ${
      here}: while a run goes on, and after one that was killed, the others' ` +
      'traces lie beside it in files of their own, where they can be reached.';
}

function banners(loaded: Loaded, timed: boolean): HTMLElement[] {
  const {views} = loaded;
  const banner = (text: string) =>
      h('div', {class: 'banner', role: 'alert'}, text);
  const ranks = missing(loaded);
  return (ranks ? [banner(ranks)] : []).concat(views.flatMap((view, i) => {
    const who = letter(views, i);
    if (view.truncated) {
      return [banner(`${who}This trace is cut off: ${view.message ||
          'its writer was stopped'}. All before that is shown.`)];
    }
    // A refusal, or that there is nothing, is said in full elsewhere.
    return view.message && !view.refusal && timed ?
        [banner(`${who}${view.status}: ${view.message}`)] :
        [];
  }));
}

function nothing(view: ViewData): HTMLElement {
  return h(
      'div', {class: 'nothing'}, h('h2', {}, 'Nothing to show'),
      h('p', {}, `${clip(view.source, 200)} holds no steps: ${
          view.message || view.status}.`),
      h('p', {}, 'A trace fills while the run goes on; a run that was ' +
          'stopped before its first traced step leaves none.'));
}

/** The bar above the tables, by which their height is set. */
function splitter(tables: HTMLElement): HTMLElement {
  const resize = (height: number) => {
    const most = Math.max(80, tables.parentElement!.clientHeight - 160);
    tables.style.height = `${Math.max(52, Math.min(most, height))}px`;
  };
  const bar = h('div', {
    class: 'splitter', role: 'separator', tabindex: 0,
    'aria-orientation': 'horizontal', 'aria-label': 'height of the tables',
    pointerdown: (event: PointerEvent) => bar.setPointerCapture(
        event.pointerId),
    pointermove: (event: PointerEvent) => {
      if (!bar.hasPointerCapture(event.pointerId)) return;
      resize(tables.getBoundingClientRect().bottom - event.clientY);
    },
    keydown: (event: KeyboardEvent) => {
      const by = {ArrowUp: 24, ArrowDown: -24}[event.key];
      if (!by) return;
      event.preventDefault();
      event.stopPropagation();
      resize(tables.clientHeight + by);
    },
  });
  return bar;
}

export function layout(
    loaded: Loaded, models: Model[], parts: Parts): HTMLElement[] {
  const {views, comparison} = loaded;
  const facts = h('div', {class: 'facts'});
  if (comparison && views.length > 1) {
    facts.append(comparisonPanel(comparison, views));
  }
  views.forEach((view, i) => {
    const heading = views.length > 1 ? `Summary ${'AB'[i]}` : 'Summary';
    if (view.summary) {
      facts.append(summaryPanel(view.summary, view.run, heading));
    }
  });
  parts.side.append(facts, parts.details);
  const timed = models.some((model) => model.hasTime);
  // Nothing to sum up and nothing to select: no panel for it.
  parts.side.hidden = !timed && facts.childElementCount === 0;

  const refusals = views.flatMap((view, i) => view.refusal ?
      [h('div', {class: 'refused'}, refusalPanel(view.refusal, view.run),
         views.length > 1 ? h('p', {}, `trace ${'AB'[i]}`) : null)] :
      []);
  const main = h('main', {class: timed ? '' : 'untimed'}, ...refusals);
  if (timed) main.append(parts.range, parts.timeline);
  else if (refusals.length === 0) main.append(nothing(views[0]!));
  const rows = models.some(
      (model) => kTabs.some((tab) => model.data.tables[tab].rows > 0));
  if (rows) main.append(splitter(parts.tables), parts.tables);
  return [
    parts.header, ...banners(loaded, timed),
    h('div', {class: 'middle'}, main, parts.side), parts.tip, parts.help,
  ];
}
