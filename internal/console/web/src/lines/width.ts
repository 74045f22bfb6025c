// How many columns a character takes, after East Asian Width (UAX 11) and as terminals do with emoji.

const wide: [number, number][] = [
  [0x1100, 0x115f], [0x231a, 0x231b], [0x2329, 0x232a], [0x23e9, 0x23ec], [0x23f0, 0x23f0], [0x23f3, 0x23f3],
  [0x25fd, 0x25fe], [0x2614, 0x2615], [0x2648, 0x2653], [0x267f, 0x267f], [0x2693, 0x2693], [0x26a1, 0x26a1],
  [0x26aa, 0x26ab], [0x26bd, 0x26be], [0x26c4, 0x26c5], [0x26ce, 0x26ce], [0x26d4, 0x26d4], [0x26ea, 0x26ea],
  [0x26f2, 0x26f3], [0x26f5, 0x26f5], [0x26fa, 0x26fa], [0x26fd, 0x26fd], [0x2705, 0x2705], [0x270a, 0x270b],
  [0x2728, 0x2728], [0x274c, 0x274c], [0x274e, 0x274e], [0x2753, 0x2755], [0x2757, 0x2757], [0x2795, 0x2797],
  [0x27b0, 0x27b0], [0x27bf, 0x27bf], [0x2b1b, 0x2b1c], [0x2b50, 0x2b50], [0x2b55, 0x2b55], [0x2e80, 0x303e],
  [0x3041, 0x33ff], [0x3400, 0x4dbf], [0x4e00, 0xa4cf], [0xa960, 0xa97f], [0xac00, 0xd7a3], [0xf900, 0xfaff],
  [0xfe30, 0xfe6f], [0xff00, 0xff60], [0xffe0, 0xffe6], [0x16fe0, 0x18cff], [0x1b000, 0x1b2ff], [0x1f004, 0x1f004],
  [0x1f0cf, 0x1f0cf], [0x1f18e, 0x1f18e], [0x1f191, 0x1f19a], [0x1f200, 0x1f320], [0x1f32d, 0x1f335],
  [0x1f337, 0x1f37c], [0x1f37e, 0x1f393], [0x1f3a0, 0x1f3ca], [0x1f3cf, 0x1f3d3], [0x1f3e0, 0x1f3f0],
  [0x1f3f4, 0x1f3f4], [0x1f3f8, 0x1f43e], [0x1f440, 0x1f440], [0x1f442, 0x1f4fc], [0x1f4ff, 0x1f53d],
  [0x1f54b, 0x1f54e], [0x1f550, 0x1f567], [0x1f57a, 0x1f57a], [0x1f595, 0x1f596], [0x1f5a4, 0x1f5a4],
  [0x1f5fb, 0x1f64f], [0x1f680, 0x1f6c5], [0x1f6cc, 0x1f6cc], [0x1f6d0, 0x1f6d2], [0x1f6d5, 0x1f6d7],
  [0x1f6dc, 0x1f6df], [0x1f6eb, 0x1f6ec], [0x1f6f4, 0x1f6fc], [0x1f7e0, 0x1f7eb], [0x1f7f0, 0x1f7f0],
  [0x1f90c, 0x1f9ff], [0x1fa70, 0x1faff], [0x20000, 0x3fffd],
]

const none = /^[\p{Mn}\p{Me}\p{Cf}\u1160-\u11ff]$/u

/** The columns of one code point: 0 for what combines with the one before, 1, or 2. */
export function widthOf(codePoint: number): 0 | 1 | 2 {
  if (codePoint < 0x300) return 1
  if (codePoint >= 0x1100 && isWide(codePoint)) return 2
  return none.test(String.fromCodePoint(codePoint)) ? 0 : 1
}

function isWide(codePoint: number): boolean {
  let low = 0
  let high = wide.length - 1
  while (low <= high) {
    const middle = (low + high) >> 1
    const [from, to] = wide[middle]!
    if (codePoint < from) high = middle - 1
    else if (codePoint > to) low = middle + 1
    else return true
  }
  return false
}

/** What takes one place on the screen: a character and what combines with it. */
export interface Glyph {
  text: string
  width: 1 | 2
}

const joiner = 0x200d
const tab = 9

/** Splits text into glyphs. A tab becomes spaces up to the next multiple of eight, counted from column. */
export function glyphs(text: string, column = 0): Glyph[] {
  const list: Glyph[] = []
  let joined = false
  for (const character of text) {
    const code = character.codePointAt(0)!
    const last = list.at(-1)
    if (code === tab) {
      for (let n = 8 - (column % 8); n > 0; n--, column++) list.push({ text: ' ', width: 1 })
      continue
    }
    const width = widthOf(code)
    if (last && (width === 0 || joined)) {
      last.text += character
    } else if (width > 0) {
      list.push({ text: character, width: width as 1 | 2 })
      column += width
    }
    joined = code === joiner
  }
  return list
}

// Nothing but characters of one column: no tab, no wide character, nothing that combines.
const plain = /^[\x20-\x7e\u00a1-\u00ac\u00ae-\u02ff\u0370-\u0482\u2010-\u2027\u2030-\u205e\u2190-\u2319\u2500-\u25fc]*$/

/** Reports whether each character of text takes one column. */
export const isPlain = (text: string) => plain.test(text)

/** The columns of text that begins in the first column. */
export function columnsOf(text: string): number {
  if (isPlain(text)) return text.length
  let sum = 0
  for (const glyph of glyphs(text)) sum += glyph.width
  return sum
}
