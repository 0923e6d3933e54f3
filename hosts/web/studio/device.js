// What the page can use, and whether it computes what it should.

import { Lean, type } from '../index.js';
import { element } from './show.js';

const NAMES = {
  backend: 'What runs a model here',
  crossOriginIsolated: 'May share memory with workers',
  hardwareConcurrency: 'Processors',
  webgpu: 'WebGPU',
  softwareAdapter: 'WebGPU: in software',
  suspends: 'Suspends WebAssembly (JSPI), which WebGPU needs here',
  shaderF16: 'WebGPU: half precision in shaders',
  subgroups: 'WebGPU: subgroups',
  fileSystem: 'Keeps models (OPFS)',
};
const WORDS = { true: 'yes', false: 'no', single: 'CPU, one thread with SIMD', threads: 'CPU threads with SIMD', gpu: 'WebGPU' };
const said = (value) => WORDS[value] ?? String(value);
const table = () => document.getElementById('capabilities');

/** Fills the table. */
export async function showDevice() {
  const capabilities = await Lean.capabilities();
  const room = await navigator.storage?.estimate?.().catch(() => null);
  const rows = Object.entries(NAMES).map(([key, name]) => [name, said(capabilities[key])]);
  if (room) rows.push(['Room for models', `${((room.quota - room.usage) / 1e9).toFixed(1)} GB`]);
  table().replaceChildren(...rows.map(([name, value]) => element('tr', {}, element('th', { textContent: name, scope: 'row' }), element('td', { textContent: value }))));
}

/** Compares texts with those of the native build. */
async function check(say) {
  const lines = (await (await fetch('check/expected.jsonl')).text()).trim().split('\n');
  const { webgpu, suspends, crossOriginIsolated } = await Lean.capabilities();
  const backends = ['single', ...(crossOriginIsolated ? ['threads'] : []), ...(webgpu && suspends ? ['gpu'] : [])];
  for (const backend of backends) await checkOn(backend, lines, say);
}

async function checkOn(backend, lines, say) {
  const engine = await Lean.load('check/model.gguf', { cache: false, backend });
  say(`${engine.version}, ${said(engine.backend)}, ${engine.info.exactnessClass}`);
  let equal = 0;
  for (const { prompt, tokens, text } of lines.map((line) => JSON.parse(line))) {
    const began = performance.now();
    const made = await engine.generate(type.text(), { blocks: prompt, maxTokens: tokens });
    const same = made.text === text;
    equal += same;
    say(`${same ? 'equal  ' : 'DIFFERS'}  ${prompt}: ${made.usage.sampledTokens} tokens in ${(performance.now() - began).toFixed(0)} ms`);
  }
  await engine.dispose();
  say(`${equal} of ${lines.length} equal`);
}

const button = document.getElementById('check');
button.addEventListener('click', async () => {
  const result = document.getElementById('check-result');
  const say = (line) => (result.textContent += `${line}\n`);
  result.textContent = '';
  button.disabled = true;
  await check(say).catch((e) => say(`failed: ${e.message}`));
  button.disabled = false;
});
