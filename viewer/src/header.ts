// The bar on top: what is shown, search, theme, help.
import type {RankName, ViewData} from './data';
import {h, replace} from './dom';
import {clip, formatBytes, formatCount} from './format';
import type {Match} from './search';

export interface HeaderEvents {
  query: (text: string) => void;
  step: (backwards: boolean) => void;
  /** One of the matches was chosen. */
  match: (match: Match) => void;
  leave: () => void;
  theme: () => void;
  help: () => void;
  copyLink: () => void;
  rank: (rank: number) => void;
}

const kShownMatches = 9;

export class Header {
  readonly element: HTMLElement;
  readonly input: HTMLInputElement;
  private readonly found: HTMLElement;
  private readonly list: HTMLElement;
  private readonly themeButton: HTMLElement;
  readonly copied: HTMLElement;

  constructor(
      views: ViewData[], ranks: RankName[],
      private readonly events: HeaderEvents) {
    this.input = h('input', {
      type: 'search', placeholder: 'operator or parameter  ( / )',
      'aria-label': 'Search operators and parameters', spellcheck: 'false',
      autocomplete: 'off',
      input: () => events.query(this.input.value),
      keydown: (event: KeyboardEvent) => this.key(event),
    });
    this.found = h('span', {class: 'found', role: 'status'});
    this.list = h('div', {class: 'matches', role: 'listbox', hidden: true});
    // A click on a match must come before the list goes away with the focus.
    const box = h(
        'div', {
          class: 'search', role: 'search', focusout: (event: FocusEvent) => {
            if (!box.contains(event.relatedTarget as Node|null)) {
              this.list.hidden = true;
            }
          },
          focusin: () => this.list.hidden = this.list.childElementCount === 0,
        },
        this.input, this.found,
        h('button', {
          type: 'button', title: 'previous hit (N)',
          'aria-label': 'previous hit',
          click: () => events.step(true),
        }, '‹'),
        h('button', {
          type: 'button', title: 'next hit (n)', 'aria-label': 'next hit',
          click: () => events.step(false),
        }, '›'),
        this.list);
    this.themeButton = h('button', {type: 'button', click: events.theme});
    this.copied = h('button', {
      type: 'button', title: 'a link to what is shown now',
      click: events.copyLink,
    }, 'Copy link');
    this.element = h(
        'header', {}, h('b', {class: 'brand'}, 'castor', h('i', {}, 'trace')),
        h('div', {class: 'runs'}, ...views.map(
            (view, i) => runTitle(view, views.length > 1 ? 'AB'[i]! : ''))),
        ranks.length > 1 ? rankChooser(views[0]!, ranks, events.rank) : null,
        box, this.copied, this.themeButton,
        h('button', {
          type: 'button', title: 'keys (?)', 'aria-label': 'help',
          click: events.help,
        }, '?'));
  }

  private key(event: KeyboardEvent): void {
    if (event.key === 'Enter') {
      event.preventDefault();
      this.events.step(event.shiftKey);
    } else if (event.key === 'Escape') {
      event.preventDefault();
      this.events.leave();
    }
    event.stopPropagation();
  }

  showTheme(dark: boolean): void {
    this.themeButton.textContent = dark ? 'Light' : 'Dark';
    this.themeButton.title = `${dark ? 'light' : 'dark'} colours (t)`;
  }

  /** How many events were found, and at which of them we are (-1: none). */
  showHits(query: string, count: number, at: number): void {
    if (this.input.value !== query) this.input.value = query;
    this.found.textContent = query === '' ? '' :
        count === 0                       ? 'none' :
        at < 0 ? formatCount(count) :
                 `${formatCount(at + 1)} / ${formatCount(count)}`;
  }

  showMatches(matches: Match[]): void {
    const item = (match: Match) => h('button', {
      type: 'button', role: 'option', tabindex: -1,
      click: () => {
        this.list.hidden = true;
        this.events.match(match);
      },
    }, h('span', {class: 'name'}, clip(match.name, 90)),
      h('small', {}, match.kind === 'operator' ? `operator ${match.moment}` :
                                                 `in chunk ${match.chunk}`));
    // Matches of both kinds are shown, where there are both.
    const operators = matches.filter((match) => match.kind === 'operator');
    const parameters = matches.filter((match) => match.kind === 'parameter');
    const few = Math.max(
        4, kShownMatches - operators.length);
    const shown = parameters.slice(0, few);
    shown.unshift(...operators.slice(0, kShownMatches - shown.length));
    const rest = matches.length - shown.length;
    replace(
        this.list, ...shown.map(item),
        rest > 0 ? h('div', {class: 'more'}, `and ${formatCount(rest)} more`) :
                   null);
    this.list.hidden =
        matches.length === 0 || document.activeElement !== this.input;
  }
}

function rankChooser(
    view: ViewData, ranks: RankName[], choose: (rank: number) => void):
    HTMLElement {
  const shown = view.run?.rank ?? 0;
  const select = h(
      'select', {
        class: 'ranks', 'aria-label': 'Rank', title: 'whose view is shown',
        change: () => choose(Number(select.value)),
      },
      ...ranks.map(({rank, host}) => h(
          'option', {value: String(rank), selected: rank === shown},
          `rank ${rank}${host ? ` on ${clip(host, 40)}` : ''}`)));
  return select;
}

function runTitle(view: ViewData, letter: string): HTMLElement {
  const {run, source, status} = view;
  const facts = run ? [
    run.title, `${run.device} device`, `policy ${run.policy}`,
    (run.deviceBudgetBytes === null ? 'no budget' :
                                      formatBytes(run.deviceBudgetBytes)) +
        (view.budgets.length > 0 ? ' at first' : ''),
    run.worldSize > 1 ? `rank ${run.rank} of ${formatCount(run.worldSize)}` : '',
    run.tokensPerStep > 0 ? `${formatCount(run.tokensPerStep)} tokens a step` :
                            '',
  ].filter((fact) => fact !== '').map((fact) => clip(fact, 120)) : [];
  const text = facts.join(' · ');
  return h(
      'div', {class: 'run', title: `${clip(source, 200)}\n${text}`},
      letter ? h('b', {class: 'letter'}, letter) : null,
      h('span', {class: 'source'}, clip(source, 60)),
      h('span', {class: `status ${status === 'finished' ? '' : 'odd'}`},
        clip(status, 40)),
      h('span', {class: 'about'}, text));
}
