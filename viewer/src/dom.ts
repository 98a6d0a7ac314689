// Elements from code. Text becomes text, never markup, wherever it came from.

type Child = Node|string|null|undefined|false;

export interface Attributes {
  class?: string;
  [name: string]: string|number|boolean|((event: any) => void)|undefined;
}

/** Functions are listeners ("click"), true an empty attribute. */
export function h<K extends keyof HTMLElementTagNameMap>(
    tag: K, attributes: Attributes = {},
    ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (typeof value === 'function') element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...present(children));
  return element;
}

export function replace(parent: Element, ...children: Child[]): void {
  parent.replaceChildren(...present(children));
}

function present(children: Child[]): (Node|string)[] {
  return children.filter(
      (child): child is Node|string => child !== null && child !== undefined &&
          child !== false);
}

/** A name that may be broken after its dots and slashes. */
export function breakable(name: string): Node {
  const result = document.createDocumentFragment();
  for (const part of name.split(/(?<=[./])(?=.)/)) {
    if (result.childNodes.length > 0) {
      result.append(document.createElement('wbr'));
    }
    result.append(part);
  }
  return result;
}

/** A square of a colour of palette.css. */
export function swatch(color: string, striped = false): HTMLElement {
  const element = h('span', {
    class: striped ? 'swatch striped' : 'swatch', 'aria-hidden': 'true',
  });
  element.style.backgroundColor = `var(--${color})`;
  return element;
}
