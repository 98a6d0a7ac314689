// The page: its parts, and the state that they share and that a link holds.
import {isSearched, kFirstSort, searchText} from './columns';
import type {Loaded} from './data';
import {details, tooltip} from './details';
import {h, replace} from './dom';
import {
  decodeState, encodeState, type Selection, type State, type Tab,
} from './hash';
import {Header} from './header';
import {helpDialog} from './help';
import {layout} from './layout';
import {Model} from './model';
import {applyTheme} from './palette';
import {RangeBar} from './range_bar';
import {type Hits, matcher, nextHit, search} from './search';
import {Tables} from './tables';
import {Timeline} from './timeline';

export class App {
  readonly models: Model[];
  readonly timeline: Timeline;
  readonly tables: Tables;
  readonly header: Header;
  readonly rangeBar = new RangeBar();
  state: State;
  hits: (Hits|null)[] = [];
  /** Whose tables and whose search hits are shown. */
  view = 0;
  hovered: Selection|null = null;
  private readonly help = helpDialog();
  private readonly detailsBox = h('section', {
    class: 'details', 'aria-label': 'Details', 'aria-live': 'polite',
  });
  private readonly side = h('aside', {'aria-label': 'Summary and details'});
  private readonly tip = h('div', {class: 'tip', hidden: true});
  private readonly lower: HTMLElement;
  private readonly hint = matchMedia('(hover: none)').matches ?
      'Tap an event, a chunk or the memory for what it is.' :
      'Point at an event, a chunk or the memory for what it is, click to ' +
          'keep it. Keys: ?';
  private hashTimer = 0;
  private detailsKey = '';

  constructor(loaded: Loaded, root: HTMLElement) {
    this.models = loaded.views.map((view) => new Model(view));
    this.state = this.readLink();
    applyTheme(this.state.theme);
    this.timeline = new Timeline(this.models, {
      select: (selection) => this.select(selection),
      hover: (selection, x, y) => this.hover(selection, x, y),
      moved: () => {
        this.state.range = {
          start: this.timeline.axis.start, end: this.timeline.axis.end,
        };
        this.showRange();
        this.keepLink();
      },
    });
    this.header = new Header(loaded.views, loaded.ranks, {
      rank: (rank) => this.showRank(rank),
      query: (text) => this.search(text),
      step: (backwards) => this.goToHit(backwards),
      match: (match) => {
        this.search(match.name);
        this.goToHit(false);
      },
      leave: () => this.leaveSearch(),
      theme: () => this.toggleTheme(),
      help: () => this.toggleHelp(),
      copyLink: () => this.copyLink(),
    });
    this.tables = new Tables({
      tab: (tab) => this.showTab(tab),
      sort: (column, descending) => {
        this.state.sort = {column, descending};
        this.showTables();
        this.keepLink();
      },
      open: (tab, row) => this.openRow(tab, row),
      view: (view) => {
        this.view = view;
        this.showTables();
        this.showHits();
      },
    });
    this.lower = h('div', {
      class: loaded.views.length > 1 ? 'lower small' : 'lower',
    }, this.tables.element);
    root.replaceChildren(...layout(loaded, this.models, {
      header: this.header.element, range: this.rangeBar.element,
      timeline: this.timeline.element,
      tables: this.lower, side: this.side, details: this.detailsBox,
      tip: this.tip, help: this.help,
    }));
    addEventListener('hashchange', () => this.followLink());
    matchMedia('(prefers-color-scheme: dark)').addEventListener(
        'change', () => this.themeChanged());
    this.themeChanged();
    this.followLink();
  }

  get model(): Model {
    return this.models[this.view]!;
  }

  /** Another rank's view: what is selected here means nothing there. */
  private showRank(rank: number): void {
    this.state.rank = rank;
    this.state.selection = null;
    this.writeLink();
    location.reload();
  }

  toggleTables(): void {
    this.lower.hidden = !this.lower.hidden;
  }

  /** Selects; `reveal` brings it into sight. */
  select(selection: Selection|null, reveal = false): void {
    this.state.selection = this.valid(selection);
    this.timeline.selection = this.state.selection;
    if (reveal && this.state.selection) this.reveal(this.state.selection);
    this.timeline.invalidate();
    this.showDetails();
    this.showHits();
    this.keepLink();
  }

  private valid(selection: Selection|null): Selection|null {
    const data = this.models[selection?.view ?? -1]?.data;
    if (!selection || !data) return null;
    const model = this.models[selection.view]!;
    const known = selection.kind === 'span' ? selection.index <
            data.spans.count :
        selection.kind === 'chunk' ? selection.chunk < model.chunkCount :
                                     selection.index < data.memory.time.length;
    return known ? selection : null;
  }

  /** The time that a selection covers, on the shared axis. */
  rangeOf(selection: Selection): {start: number, end: number} {
    const {spans, memory, residency} = this.models[selection.view]!.data;
    const {origin, model} = this.timeline.panes[selection.view]!;
    let start = 0;
    let end = 0;
    if (selection.kind === 'span') {
      start = spans.start[selection.index]!;
      end = spans.end[selection.index]!;
    } else if (selection.kind === 'memory') {
      start = end = memory.time[selection.index]!;
    } else {
      start = end = selection.time;
      const i = model.residencyAt(selection.chunk, selection.time);
      if (i >= 0) {
        start = residency.start[i]!;
        end = residency.end[i]!;
      }
    }
    return {start: start - origin, end: end - origin};
  }

  private reveal(selection: Selection): void {
    const {axis} = this.timeline;
    const {start, end} = this.rangeOf(selection);
    // What would be less than a few pixels wide is brought nearer.
    if (end > start && end - start < axis.span / 200) {
      const span = Math.min(axis.span, (end - start) * 40);
      axis.set((start + end - span) / 2, (start + end + span) / 2);
    } else {
      axis.reveal(start, end);
    }
    const chunk = selection.kind === 'chunk' ? selection.chunk :
        selection.kind === 'span' ?
                                               this.models[selection.view]!
                                                   .data.spans
                                                   .chunk[selection.index]! :
                                               -1;
    if (chunk >= 0) this.timeline.panes[selection.view]!.revealChunk(chunk);
    this.timeline.moved();
  }

  private hover(selection: Selection|null, x: number, y: number): void {
    this.hovered = selection;
    const lines = selection ?
        tooltip(this.models[selection.view]!, selection) :
        [];
    this.tip.hidden = lines.length === 0;
    if (lines.length > 0) {
      replace(this.tip, ...lines.map((line) => h('div', {}, line)));
      // The tip lies neither over the pointer nor beyond the window.
      const {offsetWidth, offsetHeight} = this.tip;
      const left = x + 14 + offsetWidth > innerWidth ? x - 10 - offsetWidth :
                                                       x + 14;
      const top = y + 18 + offsetHeight > innerHeight ? y - 10 - offsetHeight :
                                                        y + 18;
      this.tip.style.transform = `translate(${Math.max(2, left)}px, ${top}px)`;
    }
    if (!this.state.selection) this.showDetails();
  }

  private showDetails(): void {
    const shown = this.state.selection ?? this.hovered;
    this.side.classList.toggle('selected', this.state.selection !== null);
    // The time under the pointer changes with each of its moves; what is said
    // about a chunk then, only with its state.
    const key = JSON.stringify(shown);
    if (key === this.detailsKey) return;
    this.detailsKey = key;
    const card = shown ? details(
                             this.models[shown.view]!, shown,
                             (to) => this.select(to, true)) :
                         null;
    replace(this.detailsBox, card ?? h('p', {class: 'hint'}, this.hint));
  }

  private showRange(): void {
    const {axis, panes} = this.timeline;
    const {origin} = panes[this.view]!;
    this.rangeBar.show(
        this.model.rangeName(
            {start: axis.start + origin, end: axis.end + origin}),
        axis.shows(axis.extent));
  }

  showTab(tab: Tab): void {
    if (tab !== this.state.tab) this.state.sort = null;
    this.state.tab = tab;
    this.lower.hidden = false;
    this.showTables();
    this.keepLink();
  }

  private showTables(): void {
    const {tab, query} = this.state;
    const sort = this.state.sort ?? kFirstSort[tab] ?? null;
    const hits = this.hits[this.view];
    const table = this.model.data.tables[tab];
    let keep: ((row: number) => boolean)|null = null;
    if (query && hits && tab === 'chunks') {
      const chunk = table.columns['chunk'] as ArrayLike<number>;
      keep = (row) => hits.chunks.has(chunk[row]!);
    } else if (query && isSearched(tab)) {
      const matches = matcher(query);
      keep = (row) => matches(searchText(tab, table, row));
    }
    this.tables.show({
      model: this.model, view: this.view, views: this.models.length, tab, sort,
      keep,
    });
  }

  private openRow(tab: Tab, row: number): void {
    const {model, view} = this;
    const {columns} = model.data.tables[tab];
    const number = (key: string) =>
        (columns[key] as ArrayLike<number>|undefined)?.[row] ?? -1;
    const {spans, steps} = model.data;
    if (tab === 'modules') {
      this.search(String(columns['pattern']?.[row] ?? ''));
      this.showTab('operators');
    } else if (tab === 'operators') {
      const all = model.spansOfOp(number('program'), number('moment'));
      const longest = all.reduce(
          (best, i) => best < 0 || spans.end[i]! - spans.start[i]! >
                  spans.end[best]! - spans.start[best]! ? i : best, -1);
      if (longest >= 0) this.select({kind: 'span', view, index: longest}, true);
    } else if (tab === 'chunks' || (tab === 'blocks' && number('chunk') >= 0)) {
      const {axis, panes} = this.timeline;
      const time = Math.round(
          (axis.start + axis.end) / 2 + panes[view]!.origin);
      this.select({kind: 'chunk', view, chunk: number('chunk'), time});
      this.timeline.panes[view]!.revealChunk(number('chunk'));
    } else if (tab === 'waits') {
      this.select({kind: 'span', view, index: number('longest_span')}, true);
    } else if (tab === 'blocks') {
      const program = model.data.plans[steps[0]?.plan ?? -1]?.program ?? -1;
      const first = model.spansOfOp(program, number('forward'))[0];
      if (first !== undefined) {
        this.select({kind: 'span', view, index: first}, true);
      }
    } else if (steps[row]) {
      const {origin} = this.timeline.panes[view]!;
      this.timeline.axis.set(
          steps[row]!.start - origin, steps[row]!.end - origin);
      this.timeline.moved();
    }
  }

  /** Searches in all views; '' ends it. */
  search(query: string): void {
    this.state.query = query.slice(0, 200);
    this.hits = this.models.map(
        (model) => query.trim() ? search(model, this.state.query) : null);
    this.timeline.hits = this.hits;
    this.timeline.invalidate();
    this.header.showMatches(this.hits[this.view]?.matches ?? []);
    this.showHits();
    this.showTables();
    this.keepLink();
  }

  private showHits(): void {
    const hits = this.hits[this.view];
    const {selection} = this.state;
    const at = hits && selection?.kind === 'span' &&
            selection.view === this.view ?
        hits.spans.indexOf(selection.index) :
        -1;
    this.header.showHits(this.state.query, hits?.spans.length ?? 0, at);
  }

  goToHit(backwards: boolean): void {
    const hits = this.hits[this.view];
    if (!hits) return;
    const {selection} = this.state;
    const selected = selection?.kind === 'span' &&
            selection.view === this.view ? selection.index : -1;
    const {axis, panes} = this.timeline;
    const time = axis.start + panes[this.view]!.origin;
    const index = nextHit(hits, this.model, selected, time, backwards);
    if (index >= 0) {
      this.select({kind: 'span', view: this.view, index}, true);
    } else if (hits.chunks.size > 0) {
      const chunk = [...hits.chunks][0]!;
      this.select(
          {kind: 'chunk', view: this.view, chunk, time: Math.round(time)});
    }
  }

  /** Ends the search and gives the keys back to the pictures. */
  private leaveSearch(): void {
    this.search('');
    this.timeline.panes[0]!.overlay.canvas.focus();
  }

  toggleTheme(): void {
    const dark = document.documentElement.dataset['theme'] === 'dark';
    this.state.theme = dark ? 'light' : 'dark';
    this.themeChanged();
    this.keepLink();
  }

  private themeChanged(): void {
    applyTheme(this.state.theme);
    this.header.showTheme(
        document.documentElement.dataset['theme'] === 'dark');
    this.timeline.themeChanged();
  }

  toggleHelp(): void {
    if (this.help.open) this.help.close();
    else this.help.showModal();
  }

  /** Writes the state into the address, not more often than it can be read. */
  private keepLink(): void {
    clearTimeout(this.hashTimer);
    this.hashTimer = window.setTimeout(() => this.writeLink(), 150);
  }

  writeLink(): void {
    clearTimeout(this.hashTimer);
    const {axis} = this.timeline;
    if (axis.shows(axis.home)) this.state.range = null;
    else if (axis.shows(axis.extent)) this.state.range = 'all';
    const hash = encodeState(this.state);
    history.replaceState(null, '', hash ? `#${hash}` : location.pathname +
        location.search);
  }

  private copyLink(): void {
    this.writeLink();
    const say = (text: string) => {
      this.header.copied.textContent = text;
      setTimeout(() => this.header.copied.textContent = 'Copy link', 1500);
    };
    navigator.clipboard?.writeText(location.href).then(
        () => say('Copied'), () => say('In the address bar'));
  }

  private readLink(): State {
    const state = decodeState(location.hash);
    const {refusal, tables} = this.models[0]!.data;
    if (state.tab === 'modules' && tables.modules.rows === 0) {
      state.tab = 'operators';
    }
    // What a refused run asks is which operators need the most.
    if (refusal && state.tab === 'operators') {
      state.sort ??= {column: 'non_model_peak_bytes', descending: true};
    }
    return state;
  }

  /** Takes the state from the address. */
  private followLink(): void {
    const {rank} = this.state;
    this.state = this.readLink();
    if (this.state.rank !== rank) return location.reload();
    this.themeChanged();
    const {axis} = this.timeline;
    const {range} = this.state;
    if (range === 'all') axis.fit();
    else if (range) axis.set(range.start, range.end);
    else axis.goHome();
    this.showRange();
    this.state.selection = this.valid(this.state.selection);
    this.timeline.selection = this.state.selection;
    this.view = this.state.selection?.view ?? this.view;
    this.search(this.state.query);
    this.showDetails();
    this.timeline.invalidate();
  }
}
