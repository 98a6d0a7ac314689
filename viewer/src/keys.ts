// What the keys do, wherever the focus is but in a field.
import type {App} from './app';
import {kTabs} from './hash';

export class Keys {
  constructor(private readonly app: App) {}

  listen(): void {
    addEventListener('keydown', (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const target = event.target as HTMLElement;
      if (target instanceof HTMLInputElement) return;
      if (document.querySelector('dialog[open]')) {
        if (event.key === '?') this.app.toggleHelp();
        return;
      }
      if (this.press(event.key)) event.preventDefault();
    });
  }

  /** Whether the key means anything. */
  press(key: string): boolean {
    const {app} = this;
    const {timeline} = app;
    const {axis} = timeline;
    switch (key) {
      case 'a':
      case 'ArrowLeft':
        axis.pan(-0.15);
        break;
      case 'd':
      case 'ArrowRight':
        axis.pan(0.15);
        break;
      case 'w':
      case 'ArrowUp':
        axis.zoom(1 / 1.4);
        break;
      case 's':
      case 'ArrowDown':
        axis.zoom(1.4);
        break;
      case '0':
        if (axis.shows(axis.extent)) axis.goHome();
        else axis.fit();
        break;
      case 'f': {
        const {selection} = app.state;
        if (!selection) return true;
        const {start, end} = app.rangeOf(selection);
        axis.focus(start, end);
        break;
      }
      case 'j':
      case 'k':
        this.goToStep(key === 'k');
        break;
      case 'p':
        this.goToPeak();
        return true;
      case '.':
      case ',':
        this.goAlongLane(key === ',', false);
        return true;
      case ']':
      case '[':
        this.goAlongLane(key === '[', true);
        return true;
      case 'c':
        this.goToCause();
        return true;
      case 'n':
      case 'N':
        app.goToHit(key === 'N');
        return true;
      case '/':
        app.header.input.focus();
        app.header.input.select();
        return true;
      case '1':
      case '2':
      case '3':
      case '4':
      case '5':
      case '6':
        app.showTab(kTabs[Number(key) - 1]!);
        return true;
      case 'b':
        app.toggleTables();
        return true;
      case 't':
        app.toggleTheme();
        return true;
      case '?':
        app.toggleHelp();
        return true;
      case 'Escape':
        if (app.state.selection) app.select(null);
        else if (app.state.query) app.search('');
        return true;
      default:
        return false;
    }
    timeline.moved();
    return true;
  }

  /** The next step from the middle of what is shown, filling the width. */
  private goToStep(backwards: boolean): void {
    const {model, timeline} = this.app;
    const {axis} = timeline;
    const {origin} = timeline.panes[this.app.view]!;
    const {steps} = model.data;
    if (steps.length === 0) return;
    const middle = (axis.start + axis.end) / 2 + origin;
    let at = steps.findIndex((s) => s.end > middle);
    if (at < 0) at = steps.length - 1;
    // The key leads from all of the trace to its first step, and from a step to
    // its neighbour.
    const step = steps[at]!;
    const alone = axis.span < 1.5 * (step.end - step.start);
    if (alone) at += backwards ? -1 : 1;
    else at = backwards ? steps.length - 1 : 0;
    const to = steps[Math.max(0, Math.min(steps.length - 1, at))]!;
    axis.set(to.start - origin, to.end - origin);
  }

  private goToPeak(): void {
    const {model, view} = this.app;
    const {peak, memory} = model.data;
    if (!peak) return;
    const index = memory.time.findIndex(
        (time, i) => time === peak.time && memory.total[i] === peak.bytes);
    if (index >= 0) this.app.select({kind: 'memory', view, index}, true);
  }

  /** The next event, or wait, of the selected one's lane. */
  private goAlongLane(backwards: boolean, waits: boolean): void {
    const {app} = this;
    const {selection} = app.state;
    const own = selection?.kind === 'span' ? selection : null;
    const view = own?.view ?? app.view;
    const model = app.models[view]!;
    const lane = own ? model.data.spans.stream[own.index]! : 0;
    const items = model.lanes[lane]?.items;
    if (!items || items.length === 0) return;
    let at = own ? items.indexOf(own.index) :
                   model.lanes[lane]!.firstAfter(
                       app.timeline.axis.start +
                       app.timeline.panes[view]!.origin) - 1;
    const by = backwards ? -1 : 1;
    for (at += by; at >= 0 && at < items.length; at += by) {
      if (waits && !model.isWait(items[at]!)) continue;
      app.select({kind: 'span', view, index: items[at]!}, true);
      return;
    }
  }

  private goToCause(): void {
    const {app} = this;
    const {selection} = app.state;
    if (selection?.kind !== 'span') return;
    const {view, index} = selection;
    const cause = app.models[view]!.data.spans.cause[index]!;
    if (cause >= 0) app.select({kind: 'span', view, index: cause}, true);
  }
}
