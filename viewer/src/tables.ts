// The tables below the pictures: sortable, as long as need be (only the rows in
// sight are in the document), a row leads to what it is about.
import {type Column, columnsOf} from './columns';
import {h} from './dom';
import {clip, formatCount} from './format';
import {kTabs, type Tab} from './hash';
import type {Model} from './model';
import {sortRows} from './order';

const kRowHeight = 22;
/** Causes and remedies are sentences: two lines of them. */
const kTallRowHeight = 38;

export interface TableEvents {
  tab: (tab: Tab) => void;
  sort: (column: string, descending: boolean) => void;
  /** A row was chosen, by a click or by Enter. */
  open: (tab: Tab, row: number) => void;
  /** Which view's tables to show. */
  view: (view: number) => void;
}

export interface TableState {
  model: Model;
  view: number;
  views: number;
  tab: Tab;
  sort: {column: string, descending: boolean}|null;
  /** Rows that the search leaves; null: all. */
  keep: ((row: number) => boolean)|null;
}

export class Tables {
  readonly element: HTMLElement;
  /** Row numbers in the order shown. */
  order: Int32Array = new Int32Array();
  private readonly tabs: HTMLElement;
  private readonly count: HTMLElement;
  private readonly head: HTMLElement;
  private readonly body: HTMLElement;
  private readonly spacer: HTMLElement;
  private readonly rows: HTMLElement;
  private readonly switcher: HTMLElement;
  private readonly narrow = matchMedia('(max-width: 720px)');
  private state: TableState|null = null;
  private current = 0;
  private rowHeight = kRowHeight;

  constructor(private readonly events: TableEvents) {
    this.tabs = h('div', {class: 'tabs', role: 'tablist', keydown:
        (event: KeyboardEvent) => this.tabKey(event)});
    this.count = h('span', {class: 'count', role: 'status'});
    this.switcher = h('span', {class: 'switcher'});
    this.head = h('div', {class: 'head', role: 'row'});
    this.rows = h('div', {class: 'rows'});
    this.spacer = h('div', {class: 'spacer'}, this.rows);
    this.body = h('div', {
      class: 'body', tabindex: 0, role: 'rowgroup', scroll: () => this.fill(),
      keydown: (event: KeyboardEvent) => this.key(event),
    }, this.spacer);
    this.element = h(
        'section', {class: 'tables', 'aria-label': 'Tables'},
        h('div', {class: 'bar'}, this.tabs, this.switcher, this.count),
        h('div', {class: 'grid', role: 'grid'}, this.head, this.body));
    new ResizeObserver(() => this.fill()).observe(this.body);
    this.narrow.addEventListener('change', () => {
      if (this.state) this.show(this.state);
    });
  }

  show(state: TableState): void {
    const other = this.state?.tab !== state.tab ||
        this.state.model !== state.model;
    this.state = state;
    const {tab, sort, model} = state;
    const table = model.data.tables[tab];
    this.rowHeight = tab === 'waits' ? kTallRowHeight : kRowHeight;
    this.rows.classList.toggle('tall', tab === 'waits');
    this.order = sortRows(
        table, sort?.column ?? null, sort?.descending ?? false,
        state.keep ?? undefined);
    if (other) {
      this.current = 0;
      this.body.scrollTop = 0;
    }
    this.current = Math.min(this.current, Math.max(0, this.order.length - 1));
    this.showTabs(state);
    this.showHead(state);
    this.count.textContent = this.order.length === table.rows ?
        `${formatCount(table.rows)} rows` :
        `${formatCount(this.order.length)} of ${formatCount(table.rows)} rows`;
    this.spacer.style.height = `${this.order.length * this.rowHeight}px`;
    this.fill();
  }

  private showTabs({tab, model, view, views}: TableState): void {
    const focused = this.tabs.contains(document.activeElement);
    this.tabs.replaceChildren(...kTabs.map((name) => h('button', {
      type: 'button', role: 'tab', 'aria-selected': String(name === tab),
      tabindex: name === tab ? 0 : -1, 'data-tab': name,
      click: () => this.events.tab(name),
    }, name, h('small', {}, formatCount(model.data.tables[name].rows)))));
    if (focused) {
      this.tabs.querySelector<HTMLElement>('[aria-selected=true]')?.focus();
    }
    this.switcher.replaceChildren();
    for (let i = 0; views > 1 && i < views; i++) {
      this.switcher.append(h('button', {
        type: 'button', 'aria-pressed': String(i === view),
        click: () => this.events.view(i),
      }, 'AB'[i] ?? ''));
    }
  }

  private tabKey(event: KeyboardEvent): void {
    const by = event.key === 'ArrowRight' ? 1 :
        event.key === 'ArrowLeft'         ? -1 :
                                            0;
    if (by === 0 || !this.state) return;
    event.preventDefault();
    event.stopPropagation();
    const at = kTabs.indexOf(this.state.tab) + by + kTabs.length;
    this.events.tab(kTabs[at % kTabs.length]!);
  }

  private template(columns: Column[]): string {
    return columns.map((c) => c.width ? `${c.width}px` : 'minmax(0, 1fr)')
        .join(' ');
  }

  private showHead({tab, sort, model}: TableState): void {
    const columns = columnsOf(tab, model, this.narrow.matches);
    const focused = (document.activeElement as HTMLElement|null)
                        ?.dataset['column'];
    this.head.style.gridTemplateColumns = this.template(columns);
    this.head.replaceChildren(...columns.map((column) => {
      const sorted = sort?.column === column.key;
      const down = sorted ? sort.descending : column.text === true;
      return h(
          'div', {
            role: 'columnheader', class: column.text ? 'text' : 'number',
            'aria-sort': !sorted ? 'none' :
                sort.descending  ? 'descending' :
                                   'ascending',
          },
          h('button', {
            type: 'button', 'data-column': column.key,
            title: column.help || undefined,
            // Sizes largest first, names from A.
            click: () => this.events.sort(column.key, !down),
          }, column.title,
            h('span', {'aria-hidden': 'true'},
              sorted ? (sort.descending ? ' ▾' : ' ▴') : '')));
    }));
    if (focused) {
      for (const button of this.head.querySelectorAll('button')) {
        if (button.dataset['column'] === focused) button.focus();
      }
    }
  }

  /** Puts the rows that are in sight into the document. */
  private fill(): void {
    const {state, order} = this;
    if (!state) return;
    const {model, tab} = state;
    const table = model.data.tables[tab];
    const columns = columnsOf(tab, model, this.narrow.matches);
    const template = this.template(columns);
    // The first row is an even one, for the stripes of even rows.
    const first = Math.max(
        0, Math.floor(this.body.scrollTop / this.rowHeight / 2) * 2 - 2);
    const last = Math.min(
        order.length,
        Math.ceil((this.body.scrollTop + this.body.clientHeight) /
                  this.rowHeight) +
            2);
    const shown: HTMLElement[] = [];
    for (let at = first; at < last; at++) {
      const row = order[at]!;
      const cells = columns.map((column) => {
        const value = table.columns[column.key]?.[row];
        const text = value === undefined ? '' :
            clip(column.format(value, model), 300);
        const cell = h('div', {
          role: 'gridcell', class: column.text ? 'text' : 'number',
          title: column.text && text.length > 20 ? text : undefined,
        }, column.tail ? h('bdi', {dir: 'ltr'}, text) : text);
        cell.classList.toggle('tail', column.tail === true);
        return cell;
      });
      const element = h('div', {
        class: at === this.current ? 'row current' : 'row',
        role: 'row', 'data-row': row, 'aria-rowindex': at + 1,
        click: () => {
          this.current = at;
          this.events.open(tab, row);
          this.fill();
        },
      }, ...cells);
      element.style.gridTemplateColumns = template;
      shown.push(element);
    }
    this.rows.style.transform = `translateY(${first * this.rowHeight}px)`;
    this.rows.replaceChildren(...shown);
  }

  private key(event: KeyboardEvent): void {
    const inSight = Math.floor(this.body.clientHeight / this.rowHeight);
    const page = Math.max(1, inSight - 1);
    const moves: Record<string, number> = {
      ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page,
      Home: -this.order.length, End: this.order.length,
    };
    const by = moves[event.key];
    if (by !== undefined) {
      this.current = Math.max(
          0, Math.min(this.order.length - 1, this.current + by));
      const y = this.current * this.rowHeight;
      if (y < this.body.scrollTop) this.body.scrollTop = y;
      const least = y + this.rowHeight - this.body.clientHeight;
      if (this.body.scrollTop < least) this.body.scrollTop = least;
      this.fill();
    } else if (event.key === 'Enter' && this.state && this.order.length > 0) {
      this.events.open(this.state.tab, this.order[this.current]!);
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }
}
