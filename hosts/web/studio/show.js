// What is seen of a value: its text as it grows, and how sure the model was.

/** An element with properties and children. */
export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  for (const [key, value] of Object.entries(properties)) if (key.startsWith('aria-') || key === 'role') made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** The value so far: what stays, and what may still change. */
export function showPartial(pre, { value, json, finalBytes }) {
  const pretty = JSON.stringify(value, null, 2);
  const whole = new TextEncoder().encode(json).length === finalBytes;
  pre.replaceChildren(element('span', { className: whole ? '' : 'growing', textContent: pretty }));
}

/** A finished value, or text. */
export function showValue(pre, value) {
  pre.textContent = typeof value === 'string' ? value : JSON.stringify(value, null, 2);
}

/** A probability, for people. */
export const percent = (p) => (p >= 0.9995 ? '100%' : p < 0.001 ? '<0.1%' : `${(p * 100).toFixed(1)}%`);

/** A label with its probability behind it. */
export function bar(label, p) {
  const made = element('div', { className: 'bar' }, element('span', { textContent: label }), element('span', { textContent: percent(p) }));
  made.style.setProperty('--p', p.toFixed(4));
  return made;
}

/** Leaves with their alternatives. */
export function showConfidence(box, confidence) {
  if (!confidence) return box.replaceChildren();
  box.replaceChildren(
    ...confidence.leaves.map(({ path, logprob, alternatives }) => {
      const bars = alternatives?.slice(0, 6).map((a) => bar(JSON.stringify(a.value), a.probability));
      const alone = bars ?? [bar('this value', Math.exp(logprob))];
      return element('div', { className: 'leaf' }, element('code', { textContent: path || 'value' }), element('div', { className: 'bars' }, ...alone));
    }),
    element('p', { className: 'quiet', textContent: `The whole value: ${percent(Math.exp(confidence.logprob))} of all that the type allows.` }),
  );
}
