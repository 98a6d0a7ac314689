// What a link holds: the part of the address behind "#". Unknown keys and bad
// values are left out, so that a link of another version still opens.

export type Selection =
    | {kind: 'span', view: number, index: number}
    | {kind: 'chunk', view: number, chunk: number, time: number}
    | {kind: 'memory', view: number, index: number};

export const kTabs =
    ['modules', 'operators', 'chunks', 'waits', 'steps', 'blocks'] as const;
export type Tab = typeof kTabs[number];
export type Theme = 'auto'|'light'|'dark';

export interface State {
  /** Shown time in ns; null: a typical step, where there is one, else all. */
  range: {start: number, end: number}|'all'|null;
  selection: Selection|null;
  tab: Tab;
  theme: Theme;
  query: string;
  /** A column of the tab's table and its direction; null: as they come. */
  sort: {column: string, descending: boolean}|null;
  /** Of a run on several: whose view is shown. */
  rank: number;
}

export function initialState(): State {
  return {
    range: null, selection: null, tab: 'modules', theme: 'auto', query: '',
    sort: null, rank: 0,
  };
}

export function encodeState(state: State): string {
  const parts: string[] = [];
  if (state.rank > 0) parts.push(`rank=${state.rank}`);
  if (state.range === 'all') {
    parts.push('t=all');
  } else if (state.range) {
    parts.push(`t=${Math.round(state.range.start)}~${
        Math.round(state.range.end)}`);
  }
  const s = state.selection;
  if (s) {
    const numbers = s.kind === 'chunk' ? [s.view, s.chunk, Math.round(s.time)] :
                                         [s.view, s.index];
    parts.push(`sel=${s.kind}.${numbers.join('.')}`);
  }
  if (state.tab !== 'modules') parts.push(`tab=${state.tab}`);
  if (state.sort) {
    parts.push(`sort=${encodeURIComponent(state.sort.column)}.${
        state.sort.descending ? 'down' : 'up'}`);
  }
  if (state.theme !== 'auto') parts.push(`theme=${state.theme}`);
  if (state.query) parts.push(`q=${encodeURIComponent(state.query)}`);
  return parts.join('&');
}

function decodeText(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}

function decodeSelection(text: string): Selection|null {
  const match = /^(span|chunk|memory)((?:\.-?\d{1,16}){2,3})$/.exec(text);
  if (!match) return null;
  const [view, first, time] = match[2]!.slice(1).split('.').map(Number);
  if (!(view! >= 0) || !(first! >= 0)) return null;
  if (match[1] === 'chunk') {
    return time === undefined ? null :
        {kind: 'chunk', view: view!, chunk: first!, time};
  }
  return time !== undefined ? null :
      {kind: match[1] as 'span'|'memory', view: view!, index: first!};
}

export function decodeState(hash: string): State {
  const state = initialState();
  for (const part of hash.replace(/^#/, '').split('&')) {
    const equals = part.indexOf('=');
    if (equals < 0) continue;
    const key = part.slice(0, equals);
    const value = part.slice(equals + 1);
    if (key === 't' && value === 'all') {
      state.range = 'all';
    } else if (key === 't') {
      const match = /^(-?\d{1,16})~(-?\d{1,16})$/.exec(value);
      if (match && Number(match[1]) < Number(match[2])) {
        state.range = {start: Number(match[1]), end: Number(match[2])};
      }
    } else if (key === 'sel') {
      state.selection = decodeSelection(value);
    } else if (key === 'tab') {
      state.tab = kTabs.find((tab) => tab === value) ?? state.tab;
    } else if (key === 'sort') {
      const match = /^(.+)\.(up|down)$/.exec(value);
      if (match) {
        state.sort = {
          column: decodeText(match[1]!), descending: match[2] === 'down',
        };
      }
    } else if (key === 'rank') {
      if (/^\d{1,7}$/.test(value)) state.rank = Number(value);
    } else if (key === 'theme') {
      if (value === 'light' || value === 'dark') state.theme = value;
    } else if (key === 'q') {
      state.query = decodeText(value).slice(0, 200);
    }
  }
  return state;
}
