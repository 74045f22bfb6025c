/**
 * The text of a member of a JSON object, exactly as it stands there: numbers keep their digits. It is undefined if there is
 * no such member. The object must be valid JSON.
 */
export function memberText(object: string, name: string): string | undefined {
  let at = object.indexOf('{') + 1
  for (;;) {
    at = skip(object, at)
    if (object[at] !== '"') return undefined
    const keyEnd = stringEnd(object, at + 1)
    const key = JSON.parse(object.slice(at, keyEnd + 1)) as string
    at = skip(object, skip(object, keyEnd + 1) + 1) // past the colon
    const end = valueEnd(object, at)
    if (key === name) return object.slice(at, end)
    at = skip(object, end) + 1 // past the comma
  }
}

/** The texts of the elements of a JSON array, which must be valid. */
export function elementTexts(array: string): string[] {
  const texts: string[] = []
  for (let at = skip(array, array.indexOf('[') + 1); array[at] !== ']'; ) {
    const end = valueEnd(array, at)
    texts.push(array.slice(at, end))
    at = skip(array, end)
    if (array[at] === ',') at = skip(array, at + 1)
  }
  return texts
}

/** Where what is no white space begins. */
function skip(text: string, at: number): number {
  while (at < text.length && text.charCodeAt(at) <= 32) at++
  return at
}

/** The index of the quote that ends a string whose first character is at. */
function stringEnd(text: string, at: number): number {
  for (;;) {
    const quote = text.indexOf('"', at)
    if (quote < 0) return text.length
    let slashes = 0
    while (text[quote - 1 - slashes] === '\\') slashes++
    if (slashes % 2 === 0) return quote
    at = quote + 1
  }
}

/** The index behind a value that begins at at. */
function valueEnd(text: string, at: number): number {
  let depth = 0
  for (; at < text.length; at++) {
    const c = text[at]
    if (c === '"') at = stringEnd(text, at + 1)
    else if (c === '{' || c === '[') depth++
    else if (c === '}' || c === ']') {
      if (depth === 0) return at
      depth--
    } else if (depth === 0 && (c === ',' || text.charCodeAt(at) <= 32)) return at
    if (depth === 0 && (c === '"' || c === '}' || c === ']')) return at + 1
  }
  return at
}
