// The keys, shown by "?".
import {h} from './dom';

export const kKeys: [string, string][] = [
  ['a d, ← →', 'move in time'],
  ['w s, ↑ ↓', 'zoom in and out'],
  ['0', 'show all, and a typical step again'],
  ['f', 'zoom to what is selected'],
  ['p', 'go to the peak of device memory'],
  ['j k', 'next and previous step'],
  ['. ,', 'next and previous event of the lane'],
  [']  [', 'next and previous wait of the lane'],
  ['c', 'go to what the selected wait waited for'],
  ['/', 'search'],
  ['n N', 'next and previous hit'],
  ['1 to 6', 'tables: modules, operators, chunks, waits, steps, blocks'],
  ['b', 'show or hide the tables'],
  ['t', 'light or dark'],
  ['Esc', 'close, clear the selection, clear the search'],
];

const kMouse: [string, string][] = [
  ['wheel', 'zoom at the pointer'],
  ['shift + wheel', 'move in time'],
  ['drag', 'move in time'],
  ['shift + drag, drag on the ruler', 'zoom to a range'],
  ['double click', 'zoom to an event'],
  ['wheel over chunk numbers', 'scroll chunks'],
];

export function helpDialog(): HTMLDialogElement {
  const list = (entries: [string, string][]) => h(
      'dl', {}, ...entries.flatMap(
                    ([keys, what]) =>
                        [h('dt', {}, h('kbd', {}, keys)), h('dd', {}, what)]));
  const dialog = h(
      'dialog', {class: 'help', 'aria-label': 'Help'},
      h('h2', {}, 'Keys'), list(kKeys), h('h2', {}, 'Mouse'), list(kMouse),
      h('form', {method: 'dialog'}, h('button', {autofocus: true}, 'Close')));
  // A click beside the dialog is one on its backdrop.
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) dialog.close();
  });
  return dialog;
}
