// The studio: an engine's primitives by hand. Views of their own: chat.js, device.js.

import { Lean, type } from '../index.js';
import { Chat } from './chat.js';
import { showDevice } from './device.js';
import { rangeOf } from './locate.js';
import { element, showConfidence, showPartial, showValue } from './show.js';
import { Tokens } from './tokens.js';
import { Tree } from './tree.js';

const $ = (id) => document.getElementById(id);
const megabytes = (n) => `${(n / 1e6).toFixed(0)} MB`;

/** The loaded model, its cancels, and the stream that runs. */
let engine = null;
let loading = null;
let stream = null;

// ---- model --------------------------------------------------------------------------------------------------------

async function load(source) {
  loading?.abort();
  const mine = (loading = new AbortController());
  say($('model-error'));
  $('progress').hidden = false;
  $('cancel-load').hidden = false;
  try {
    await engine?.dispose();
    setEngine(null);
    const loaded = await Lean.load(source, { backend: $('backend').value, signal: mine.signal, onProgress: showProgress });
    // Another load may have begun in the moment when this one was done.
    if (loading === mine) setEngine(loaded);
    else await loaded.dispose();
  } catch (e) {
    if (!mine.signal.aborted) say($('model-error'), e.message);
  }
  if (loading !== mine) return;
  loading = null;
  $('progress').hidden = true;
  $('cancel-load').hidden = true;
  await listModels();
}

function showProgress({ stage, done, total }) {
  const bar = $('progress').querySelector('progress');
  if (total) bar.value = done / total;
  else bar.removeAttribute('value');
  const what = stage === 'fetch' ? 'fetching' : 'into memory';
  $('progress').querySelector('span').textContent = `${what} ${megabytes(done)}${total ? ` of ${megabytes(total)}` : ''}`;
}

function setEngine(made) {
  engine = made;
  for (const id of ['generate', 'open', 'send']) $(id).disabled = !engine;
  $('status').textContent = 'No model';
  tree.clear();
  chat.use(engine);
  if (!engine) return;
  void showStatus();
  void countTokens();
  const mine = engine;
  void engine.ended.then((error) => {
    if (error.name !== 'panic' || engine !== mine) return;
    setEngine(null);
    say($('model-error'), `${error.message}. Load the model again.`);
  });
}

async function showStatus() {
  const { info, backend, threads } = engine;
  const memory = await engine.memory().catch(() => 0);
  $('status').textContent = `${info.name || info.architecture} · ${backend === 'gpu' ? `WebGPU, ${info.device}` : `CPU, ${threads > 1 ? `${threads} threads` : 'one thread'}`} · ${megabytes(memory)}`;
}

/** What can be chosen: what the site offers, and what is cached. */
async function listModels() {
  const offered = await fetch('models.json').then((r) => (r.ok ? r.json() : [])).catch(() => []);
  const cached = (await Lean.cache.list()).filter((m) => m.complete);
  const all = new Map(offered.map(({ url, name }) => [new URL(url, location.href).href, name ?? '']));
  for (const { url, size } of cached) all.set(url, `cached, ${megabytes(size)}`);
  $('models').replaceChildren(...[...all].map(([value, label]) => element('option', { value, label })));
  if ($('url').value === '') $('url').value = [...all.keys()][0] ?? '';
}

$('load').addEventListener('submit', (e) => {
  e.preventDefault();
  if ($('url').value.trim() !== '') void load($('url').value.trim());
});
$('file').addEventListener('change', () => {
  if ($('file').files.length > 0) void load($('file').files[0]);
});
$('cancel-load').addEventListener('click', () => loading?.abort());

// ---- context ------------------------------------------------------------------------------------------------------

const KINDS = { text: 'text', raw: 'raw text', json: 'JSON', system: 'system', user: 'user', assistant: 'assistant' };
const isMessage = (kind) => ['system', 'user', 'assistant'].includes(kind);
let blocks = [{ kind: 'user', text: 'Invent a user of a photo sharing app. Reply with JSON.' }];

function showBlocks() {
  $('blocks').replaceChildren(
    ...blocks.map((block, i) => {
      const kinds = Object.entries(KINDS).map(([value, label]) => element('option', { value, label, selected: value === block.kind }));
      const kind = element('select', { 'aria-label': 'Kind of block' }, ...kinds);
      kind.addEventListener('change', () => change(() => (block.kind = kind.value)));
      const text = element('textarea', { value: block.text, rows: 2, 'aria-label': `Block ${i + 1}, ${KINDS[block.kind]}` });
      text.addEventListener('input', () => ((block.text = text.value), soonCount()));
      const move = (by) => change(() => blocks.splice(i + by, 0, ...blocks.splice(i, 1)));
      const button = (label, title, act, disabled = false) => {
        const made = element('button', { type: 'button', textContent: label, title, 'aria-label': title, disabled });
        made.addEventListener('click', act);
        return made;
      };
      const tools = [
        button('↑', 'Move up', () => move(-1), i === 0),
        button('↓', 'Move down', () => move(1), i === blocks.length - 1),
        button('×', 'Remove', () => change(() => blocks.splice(i, 1))),
      ];
      return element('li', { className: 'block' }, element('div', {}, kind, element('span', { className: 'grow' }), ...tools), text);
    }),
  );
}

function change(act) {
  act();
  showBlocks();
  soonCount();
}

/** The blocks as the engine takes them; messages that follow each other are one conversation. */
function context() {
  const made = [];
  for (const { kind, text } of blocks) {
    const last = made.at(-1);
    if (isMessage(kind) && last?.chat) last.chat.push({ role: kind, content: text });
    else if (isMessage(kind)) made.push({ chat: [{ role: kind, content: text }] });
    else if (kind === 'json') made.push({ json: JSON.parse(text) });
    else made.push({ [kind]: text });
  }
  return made;
}

async function countTokens() {
  if (!engine) return;
  try {
    const { ids } = await engine.tokenize(context());
    $('context-tokens').textContent = `${ids.length} tokens`;
  } catch (e) {
    $('context-tokens').textContent = e.message;
  }
}

let counting;
function soonCount() {
  clearTimeout(counting);
  counting = setTimeout(countTokens, 250);
}

for (const button of document.querySelectorAll('[data-add]')) {
  button.addEventListener('click', () => change(() => blocks.push({ kind: button.dataset.add, text: button.dataset.add === 'json' ? '{}' : '' })));
}

// ---- type ---------------------------------------------------------------------------------------------------------

const EXAMPLES = {
  expr: '{\n  "name": "string < 32",\n  "age": "18 <= number.integer <= 99",\n  "role": "\'admin\' | \'editor\' | \'viewer\'",\n  "tags": "(string < 16)[] <= 3"\n}',
  schema: '{\n  "type": "object",\n  "properties": {\n    "name": { "type": "string", "maxLength": 32 },\n    "role": { "enum": ["admin", "editor", "viewer"] }\n  },\n  "required": ["name", "role"]\n}',
  text: '',
};
const typed = { ...EXAMPLES };
const kindOfType = () => document.querySelector('[name=kind]:checked').value;

/** The type as it is written; an expression may be a JSON object or a bare string. */
function writtenType() {
  const text = $('type').value;
  if (kindOfType() === 'text') return type.text();
  if (kindOfType() === 'schema') return type.schema(JSON.parse(text));
  return /^\s*[[{"]/.test(text) ? type(JSON.parse(text)) : type(text.trim());
}

function markType(range) {
  const text = $('type').value;
  const [begin, end] = range ?? [0, 0];
  $('type-marks').replaceChildren(text.slice(0, begin), element('u', { textContent: text.slice(begin, end) }), text.slice(end));
}

/** Says what is wrong with the type, where it is wrong. */
async function checkType() {
  try {
    const made = writtenType();
    if (engine) await engine.checkType(made);
    say($('type-error'));
    markType(null);
  } catch (e) {
    const position = /position (\d+)/.exec(e.message);
    say($('type-error'), e.message);
    const at = position && Math.min(Number(position[1]), $('type').value.length - 1);
    markType(position ? [at, at + 1] : rangeOf($('type').value, e.details?.at));
  }
}

let checking;
$('type').addEventListener('input', () => {
  typed[kindOfType()] = $('type').value;
  markType(null);
  clearTimeout(checking);
  checking = setTimeout(checkType, 250);
});
$('type').addEventListener('scroll', () => ($('type-marks').scrollTop = $('type').scrollTop));
for (const radio of document.querySelectorAll('[name=kind]')) radio.addEventListener('change', showType);

function showType() {
  $('type').value = typed[kindOfType()];
  $('type').disabled = kindOfType() === 'text';
  void checkType();
}

// ---- generating ---------------------------------------------------------------------------------------------------

function options(node) {
  const temperature = Number($('temperature').value);
  return {
    blocks: context(),
    checkpoint: node.checkpoint,
    maxTokens: Number($('max').value),
    ...(temperature > 0 && { temperature, seed: Number($('seed').value) }),
    ...(kindOfType() !== 'text' && { partials: true, confidence: true }),
    candidates: Number($('candidates').value),
    keep: true,
  };
}

async function generate() {
  if (!engine || stream) return;
  await checkType();
  if ($('type-error').textContent !== '') return $('type').focus();
  const node = tree.chosen;
  try {
    await follow(engine.stream(writtenType(), options(node)), node);
  } catch (e) {
    say($('value-error'), e.message);
  }
}

/** Why a context does not fit here, for people. */
const explained = (e) =>
  tree.chosen.parent && /conversation/.test(e.message) ? `${e.message}: to continue a checkpoint, use text, raw or JSON blocks` : e.message;

/** Shows a stream until its end, and keeps what it ends in. */
async function follow(started, parent) {
  stream = started;
  running(true);
  say($('value-error'));
  $('value').replaceChildren();
  tokens.clear();
  showConfidence($('confidence'), null);
  const began = performance.now();
  let [first, count, text] = [null, 0, ''];
  try {
    for await (const event of started) {
      if (event.type === 'token') {
        first ??= performance.now();
        count += event.ids.length;
        text += event.text;
        tokens.token(event);
        if (kindOfType() === 'text') showValue($('value'), text);
      } else if (event.type === 'candidates') tokens.candidates(event);
      else if (event.type === 'partial') showPartial($('value'), event);
      else if (event.type === 'prefill') $('speed').textContent = `context ${event.done} of ${event.total} tokens`;
      if (first !== null) showSpeed(began, first, count);
    }
    const result = await started.result;
    tokens.end();
    showValue($('value'), result.value);
    showConfidence($('confidence'), result.confidence);
    const label = typeof result.value === 'string' ? result.value : result.text;
    tree.add(parent, { label, detail: `${count} tokens`, checkpoint: result.checkpoint(), value: result.value });
  } catch (e) {
    if (e.name !== 'cancelled') say($('value-error'), explained(e));
  } finally {
    stream = null;
    running(false);
    if (engine) await showStatus();
  }
}

function showSpeed(began, first, count) {
  const seconds = (performance.now() - first) / 1000;
  const speed = count > 1 && seconds > 0 ? ` · ${((count - 1) / seconds).toFixed(1)} tokens/s` : '';
  $('speed').textContent = `first token after ${((first - began) / 1000).toFixed(2)} s · ${count} tokens${speed}`;
}

function running(is) {
  $('stop').disabled = !is;
  $('take').disabled = !is;
  $('generate').disabled = is || !engine;
}

$('generate').addEventListener('click', generate);
$('stop').addEventListener('click', () => stream?.cancel());
document.addEventListener('keydown', (e) => {
  if (e.key === 'Enter' && (e.ctrlKey || e.metaKey) && !$('view-value').hidden) void generate();
  if (e.key === 'Escape') stream?.cancel();
});

const tokens = new Tokens($('tokens'), $('candidates-of'));

// ---- checkpoints --------------------------------------------------------------------------------------------------

const tree = new Tree($('tree'), (node) => {
  $('save').disabled = !node.checkpoint;
  $('resume').disabled = !node.inside;
  if (node.value !== undefined && !stream) showValue($('value'), node.value);
});

$('take').addEventListener('click', async () => {
  const parent = tree.chosen;
  try {
    const checkpoint = await stream.checkpoint();
    tree.add(parent, { label: $('value').textContent.replace(/\s+/g, ' '), detail: 'inside a value', checkpoint, inside: true });
  } catch (e) {
    say($('value-error'), e.message);
  }
});
$('resume').addEventListener('click', async () => {
  const node = tree.chosen;
  try {
    running(true);
    const { value, text, checkpoint } = await engine.resume(node.checkpoint, { keep: true, onPartial: (e) => showPartial($('value'), e) });
    showValue($('value'), value);
    tree.add(node, { label: text, detail: 'resumed', checkpoint: checkpoint(), value });
  } catch (e) {
    say($('value-error'), e.message);
  } finally {
    running(false);
  }
});
$('save').addEventListener('click', async () => {
  const bytes = await tree.chosen.checkpoint.bytes();
  const link = element('a', { href: URL.createObjectURL(new Blob([bytes])), download: 'checkpoint.lean' });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
});
$('open').addEventListener('change', async () => {
  const [file] = $('open').files;
  $('open').value = '';
  if (!file) return;
  try {
    const checkpoint = await engine.restore(new Uint8Array(await file.arrayBuffer()), { policy: 'convert' });
    const detail = checkpoint.restored === 'converted' ? 'opened, converted from another backend' : 'opened';
    tree.add(tree.chosen, { label: file.name, detail, checkpoint });
  } catch (e) {
    say($('value-error'), e.message);
  }
});

// ---- the page -----------------------------------------------------------------------------------------------------

/** Shows a message, or nothing. */
function say(place, message = '') {
  place.textContent = message;
  place.hidden = message === '';
}

const tabs = [...document.querySelectorAll('[role=tab]')];
function show(tab) {
  for (const each of tabs) {
    each.setAttribute('aria-selected', String(each === tab));
    each.tabIndex = each === tab ? 0 : -1;
    $(each.getAttribute('aria-controls')).hidden = each !== tab;
  }
  if (tab.id === 'tab-device') void showDevice();
}
for (const [i, tab] of tabs.entries()) {
  tab.addEventListener('click', () => show(tab));
  tab.addEventListener('keydown', (e) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!step) return;
    const next = tabs[(i + step + tabs.length) % tabs.length];
    show(next);
    next.focus();
  });
}

const chat = new Chat();
showBlocks();
showType();
await listModels();
