// Where in a JSON text a JSON pointer points, so that an error can be underlined.

/** The range [begin, end) of the value that a pointer names; null if there is none, or the text is no JSON. */
export function locate(text, pointer) {
  const parts = pointer === '' ? [] : pointer.slice(1).split('/').map((p) => p.replaceAll('~1', '/').replaceAll('~0', '~'));
  let at = 0;
  let found = null;
  const blank = () => {
    while (/\s/.test(text[at] ?? '')) at += 1;
  };
  const string = () => {
    const begin = at;
    at += 1;
    while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
    at += 1;
    return JSON.parse(text.slice(begin, at));
  };
  /** `depth` parts of the pointer have led here, or -1: it leads elsewhere. */
  const value = (depth) => {
    blank();
    const begin = at;
    if (text[at] === '{' || text[at] === '[') container(text[at] === '{', depth);
    else if (text[at] === '"') string();
    else while (at < text.length && !/[\s,\]}]/.test(text[at])) at += 1;
    if (depth === parts.length) found = [begin, at];
  };
  const container = (named, depth) => {
    at += 1;
    for (let i = 0; ; i += 1) {
      blank();
      if (at >= text.length) return;
      if (text[at] === '}' || text[at] === ']') break;
      let name = String(i);
      if (named) {
        name = string();
        blank();
        at += 1;
      }
      // An optional member is named with its question mark in an expression.
      const fits = depth >= 0 && (parts[depth] === name || `${parts[depth]}?` === name);
      value(fits ? depth + 1 : -1);
      blank();
      if (text[at] === ',') at += 1;
    }
    at += 1;
  };
  try {
    JSON.parse(text);
    value(0);
  } catch {
    return null;
  }
  return found;
}

/** The range of an error of the engine in the text it is about: `/a/0`, `character 3` or `character 3 of /a/0`. */
export function rangeOf(text, at) {
  if (typeof at !== 'string') return null;
  const place = /^character (\d+)(?: of (.*))?$/s.exec(at);
  if (!place) return locate(text, at);
  const range = place[2] === undefined ? [0, text.length] : locate(text, place[2]);
  if (!range) return null;
  // Counted from 1; an expression in JSON stands between quotes. To the end of the word.
  const quote = text[range[0]] === '"' ? 1 : 0;
  const begin = Math.max(0, Math.min(range[0] + quote + Number(place[1]) - 1, text.length - 1));
  return [begin, begin + Math.max(1, /^[\w.]*/.exec(text.slice(begin))[0].length)];
}
