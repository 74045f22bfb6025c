// Select Graphic Rendition (ECMA-48, 8.3.117), with the colours of ISO 8613-6. Styles are numbers, and equal if they look
// alike, so that a line of a million characters in one style is text and a number.

export const bold = 1
export const faint = 2
export const italic = 4
export const underline = 8
export const inverse = 16
export const struck = 32
/** Came by stderr. */
export const stderr = 64

/** How characters look. A colour is -1 for the default one, 0 to 255 for the palette, or 0x1000000 + RGB. */
export interface Style {
  fg: number
  bg: number
  flags: number
}

const styles: Style[] = []
const numbers = new Map<string, number>()

/** The number of a style. */
export function numberOf(fg: number, bg: number, flags: number): number {
  const key = `${fg}/${bg}/${flags}`
  let number = numbers.get(key)
  if (number === undefined) {
    number = styles.length
    numbers.set(key, number)
    styles.push({ fg, bg, flags })
  }
  return number
}

/** The style of a number. */
export const styleOf = (number: number): Style => styles[number]!

/** Nothing special: its number is 0. */
export const defaultStyle = numberOf(-1, -1, 0)
export const stderrStyle = numberOf(-1, -1, stderr)

/** True colours beyond that many styles are left out, for a hostile command could fill the memory. */
const maxStyles = 4096

const on: Record<number, number> = { 1: bold, 2: faint, 3: italic, 4: underline, 7: inverse, 9: struck, 21: underline }
const off: Record<number, number> = { 22: bold | faint, 23: italic, 24: underline, 27: inverse, 29: struck }

/** The style that a sequence with these parameters makes of another one. */
export function select(style: number, parameters: string): number {
  let { fg, bg, flags } = styleOf(style)
  const values = parameters.split(';').map((text) => text.split(':').map((number) => Number(number) || 0))
  for (let i = 0; i < values.length; i++) {
    const [value = 0, ...parts] = values[i]!
    if (value === 0) {
      fg = bg = -1
      flags &= stderr
    } else if (value === 4 && parts[0] === 0) flags &= ~underline // 4:3 and its like are shapes of it
    else if (on[value]) flags |= on[value]
    else if (off[value]) flags &= ~off[value]
    else if (value >= 30 && value <= 37) fg = value - 30
    else if (value >= 90 && value <= 97) fg = value - 82
    else if (value >= 40 && value <= 47) bg = value - 40
    else if (value >= 100 && value <= 107) bg = value - 92
    else if (value === 39) fg = -1
    else if (value === 49) bg = -1
    else if (value === 38 || value === 48 || value === 58) {
      const [colour, used] = parts.length > 0 ? [withSpace(parts), 0] : extended(values.slice(i + 1, i + 5).map(([first = 0]) => first))
      i += used
      if (value === 38) fg = colour
      if (value === 48) bg = colour
    }
  }
  if (styles.length >= maxStyles && !numbers.has(`${fg}/${bg}/${flags}`)) return numberOf(-1, -1, flags)
  return numberOf(fg, bg, flags)
}

/** Reads 5, N or 2, R, G, B and says how many values that were. */
function extended([kind, ...values]: number[]): [colour: number, used: number] {
  if (kind === 5) return [Math.min(values[0] ?? 0, 255), 2]
  if (kind !== 2) return [-1, 1]
  const [red, green, blue] = [0, 1, 2].map((n) => Math.min(values[n] ?? 0, 255)) as [number, number, number]
  return [0x1000000 + (red << 16) + (green << 8) + blue, 4]
}

/** Reads what colons part, where a colour space may stand in front of the colours. */
function withSpace(parts: number[]): number {
  return extended(parts[0] === 2 && parts.length > 4 ? [2, ...parts.slice(2)] : parts)[0]
}

const steps = [0, 95, 135, 175, 215, 255]

/** A colour of the palette beyond the sixteen that the theme has, or a true colour, as CSS. */
export function cssColour(colour: number): string {
  if (colour >= 0x1000000) return `#${(colour & 0xffffff).toString(16).padStart(6, '0')}`
  if (colour >= 232) return `rgb(${Array(3).fill(8 + (colour - 232) * 10).join(' ')})`
  const n = colour - 16
  return `rgb(${[Math.floor(n / 36), Math.floor(n / 6) % 6, n % 6].map((i) => steps[i]).join(' ')})`
}
