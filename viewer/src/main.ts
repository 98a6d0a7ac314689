// Title: Castor trace
//
// The trace viewer: shows the views that the page carries, or those that the
// server it came from has for it.
import './palette.css';
import './style.css';

import {App} from './app';
import {DataError} from './data';
import {h} from './dom';
import {clip} from './format';
import {decodeState} from './hash';
import {Keys} from './keys';
import {applyTheme} from './palette';
import {parse} from './parse';

declare global {
  interface Window {
    /** For tests and for the curious: what is shown and how. */
    castorViewer?: App;
  }
}

async function loadText(): Promise<string> {
  const carried = document.getElementById('castor-data')?.textContent ?? '';
  if (carried.trim() !== '') return carried;
  if (location.protocol === 'file:') {
    throw new DataError('this page carries no trace; "castor trace export ' +
        'TRACE OUT.html" writes one that does');
  }
  const response = await fetch('view.json');
  if (!response.ok) {
    throw new DataError(reasonIn(await response.text()));
  }
  return response.text();
}

/** Why the server has no trace to show, in its own words. */
function reasonIn(text: string): string {
  try {
    return String(JSON.parse(text).error);
  } catch {
    return text;
  }
}

/** What went wrong, in place of the page. */
function fail(root: HTMLElement, error: unknown): void {
  const ours = error instanceof DataError;
  const message = error instanceof Error ? error.message : String(error);
  root.replaceChildren(h(
      'div', {class: 'failure', role: 'alert'},
      h('h2', {}, ours ? 'This trace cannot be shown' : 'The viewer failed'),
      h('p', {}, clip(message, 2000))));
  if (!ours) console.error(error);
}

async function start(): Promise<void> {
  applyTheme('auto');
  const root = h('div', {id: 'page'}, h('p', {class: 'hint'}, 'loading'));
  document.body.append(root);
  try {
    const {rank} = decodeState(location.hash);
    const loaded = parse(await loadText(), rank);
    // The text is not needed twice.
    document.getElementById('castor-data')?.replaceChildren();
    const names = loaded.views.map((view) => clip(view.source, 80));
    document.title = `${names.join(' / ')} – castor trace`;
    const app = new App(loaded, root);
    const keys = new Keys(app);
    keys.listen();
    app.rangeBar.press = (key) => keys.press(key);
    window.castorViewer = app;
  } catch (error) {
    fail(root, error);
  }
}

void start();
