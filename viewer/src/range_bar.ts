// The bar above the pictures: which part of the trace they show, and buttons for
// the keys that lead to another.
import {h} from './dom';

export class RangeBar {
  readonly element: HTMLElement;
  private readonly name = h('span', {class: 'shown', role: 'status'});
  private readonly all: HTMLElement;
  /** What a button calls with the key that it stands for. */
  press: (key: string) => void = () => {};

  constructor() {
    const button = (key: string, text: string, what: string) => h('button', {
      type: 'button', title: `${what} (${key})`, 'aria-label': what,
      click: () => this.press(key),
    }, text);
    this.all = h('button', {
      type: 'button', title: 'from a typical step to all of them, and back (0)',
      click: () => this.press('0'),
    });
    this.element = h(
        'div', {class: 'range', role: 'toolbar', 'aria-label': 'Shown range'},
        button('k', '‹', 'previous step'), this.name,
        button('j', '›', 'next step'), h('span', {class: 'spring'}), this.all,
        button('p', 'Peak', 'the peak of device memory'),
        button('s', '−', 'zoom out'), button('w', '+', 'zoom in'));
  }

  show(name: string, all: boolean): void {
    this.name.textContent = name;
    this.all.textContent = all ? 'One step' : 'All steps';
  }
}
