// Checkpoints as a tree: each continues the one above it.

import { element } from './show.js';

/** The tree of a model's checkpoints. */
export class Tree {
  #list;
  #root;
  #onChoose;

  constructor(list, onChoose) {
    this.#list = list;
    this.#onChoose = onChoose;
    list.addEventListener('keydown', (e) => this.#key(e));
    this.clear();
  }

  clear() {
    this.#root = { label: 'empty context', detail: '', checkpoint: undefined, children: [], parent: null };
    this.chosen = this.#root;
    this.#show();
  }

  /** Adds a checkpoint below another. What is chosen stays, so that the next value is another branch. */
  add(parent, node) {
    parent.children.push({ children: [], ...node, parent });
    this.#show();
  }

  choose(node) {
    this.chosen = node;
    this.#show();
    this.#onChoose(node);
  }

  #all(node = this.#root) {
    return [node, ...node.children.flatMap((child) => this.#all(child))];
  }

  #key(e) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (!step) return;
    e.preventDefault();
    const all = this.#all();
    this.choose(all[Math.max(0, Math.min(all.length - 1, all.indexOf(this.chosen) + step))]);
    this.#list.querySelector('[aria-selected=true] > button').focus();
  }

  #show() {
    this.#list.replaceChildren(this.#item(this.#root));
  }

  #item(node) {
    const button = element('button', { type: 'button', title: node.label, tabIndex: node === this.chosen ? 0 : -1 }, node.label, element('small', { textContent: node.detail }));
    button.addEventListener('click', () => this.choose(node));
    const item = element('li', { role: 'treeitem', 'aria-selected': String(node === this.chosen) }, button);
    if (node.children.length > 0) item.append(element('ul', { role: 'group' }, ...node.children.map((child) => this.#item(child))));
    return item;
  }
}
