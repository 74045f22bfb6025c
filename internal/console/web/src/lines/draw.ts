import { runs } from './row'
import { bold, cssColour, faint, inverse, italic, stderr, struck, styleOf, underline } from './style'
import { glyphs, isPlain } from './width'

/** Columns beyond this one are not drawn; copies and downloads have them. */
const maxDrawn = 5000

/** What is searched for: a text, in lower case, or an expression with the flag g; "" for nothing. */
export type Query = string | RegExp

/** Fills an element with a line. */
export function drawLine(element: HTMLElement, text: string, styles: number | number[], query: Query): void {
  const cut = text.length > maxDrawn
  if (cut) text = text.slice(0, maxDrawn)
  if (styles === 0 && query === '' && isPlain(text)) {
    element.textContent = text
    return
  }
  const nodes: Node[] = []
  const found = query === '' ? [] : occurrences(text, query)
  for (const [from, to, style] of runs(text, styles)) {
    if (from >= text.length) break
    for (const [start, end, marked] of split(from, Math.min(to, text.length), found)) {
      nodes.push(drawRun(text.slice(start, end), style, marked))
    }
  }
  if (cut) nodes.push(document.createTextNode(' …'))
  element.replaceChildren(...nodes)
}

/** Where query is in text, without regard to case. */
export function occurrences(text: string, query: Query): [from: number, to: number][] {
  const list: [number, number][] = []
  if (typeof query !== 'string') {
    for (const { index, 0: found } of text.matchAll(query)) if (found !== '') list.push([index, index + found.length])
    return list
  }
  const folded = text.toLowerCase()
  for (let at = folded.indexOf(query); at >= 0; at = folded.indexOf(query, at + query.length)) list.push([at, at + query.length])
  return list
}

/** Cuts a run where marked parts begin and end. */
function* split(from: number, to: number, found: [number, number][]): Generator<[number, number, boolean]> {
  let at = from
  for (const [start, end] of found) {
    if (end <= at || start >= to) continue
    if (start > at) yield [at, start, false]
    const stop = Math.min(end, to)
    yield [Math.max(start, at), stop, true]
    at = stop
  }
  if (at < to) yield [at, to, false]
}

function drawRun(text: string, number: number, marked: boolean): Node {
  const content = isPlain(text) ? [document.createTextNode(text)] : drawGlyphs(text)
  if (number === 0 && !marked) {
    if (content.length === 1) return content[0]!
    const span = document.createElement('span')
    span.append(...content)
    return span
  }
  const span = document.createElement(marked ? 'mark' : 'span')
  const { fg, bg, flags } = styleOf(number)
  const names: string[] = []
  if (flags & bold) names.push('tb')
  if (flags & faint) names.push('tf')
  if (flags & italic) names.push('ti')
  if (flags & underline) names.push('tu')
  if (flags & struck) names.push('ts')
  if (flags & stderr) names.push('te')
  if (flags & inverse) names.push('tv')
  colour(span, names, 'fg', flags & inverse ? bg : fg)
  colour(span, names, 'bg', flags & inverse ? fg : bg)
  span.className = names.join(' ')
  span.append(...content)
  return span
}

function colour(span: HTMLElement, names: string[], kind: 'fg' | 'bg', value: number): void {
  if (value < 0) return
  if (value < 16) names.push(`${kind}${value}`)
  else span.style.setProperty(kind === 'fg' ? 'color' : 'background-color', cssColour(value))
}

/** Puts characters that may be wider or narrower in the font into boxes of their columns. */
function drawGlyphs(text: string): Node[] {
  const nodes: Node[] = []
  let plain = ''
  const flush = () => {
    if (plain !== '') nodes.push(document.createTextNode(plain))
    plain = ''
  }
  for (const glyph of glyphs(text)) {
    if (glyph.width === 1 && isPlain(glyph.text)) {
      plain += glyph.text
      continue
    }
    flush()
    const box = document.createElement('span')
    box.className = glyph.width === 2 ? 'w2' : 'w1'
    box.textContent = glyph.text
    nodes.push(box)
  }
  flush()
  return nodes
}
