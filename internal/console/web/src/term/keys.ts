/** The keys that send a letter behind CSI, or SS3 where the program has asked for that. */
const letters: Record<string, string> = { ArrowUp: 'A', ArrowDown: 'B', ArrowRight: 'C', ArrowLeft: 'D', Home: 'H', End: 'F' }
const functions: Record<string, string> = { F1: 'P', F2: 'Q', F3: 'R', F4: 'S' }
const numbers: Record<string, number> = {
  Insert: 2, Delete: 3, PageUp: 5, PageDown: 6, F5: 15, F6: 17, F7: 18, F8: 19, F9: 20, F10: 21, F11: 23, F12: 24,
}
const simple: Record<string, string> = { Enter: '\r', Backspace: '\x7f', Tab: '\t', Escape: '\x1b' }
/** What Ctrl makes of characters that are no letters. */
const controls: Record<string, string> = { ' ': '\0', '@': '\0', '[': '\x1b', '\\': '\x1c', ']': '\x1d', '^': '\x1e', '_': '\x1f', '/': '\x1f', '?': '\x7f' }

/** What of a KeyboardEvent matters. */
export interface Key {
  key: string
  ctrlKey: boolean
  altKey: boolean
  shiftKey: boolean
  metaKey: boolean
}

/** What a key sends to a program in a terminal, as xterm does it; undefined where it is none of its keys. */
export function bytesOf(key: Key, cursorKeys: boolean): string | undefined {
  if (key.metaKey) return undefined
  const modifier = 1 + (key.shiftKey ? 1 : 0) + (key.altKey ? 2 : 0) + (key.ctrlKey ? 4 : 0)
  const letter = letters[key.key] ?? functions[key.key]
  if (letter) {
    if (modifier > 1) return `\x1b[1;${modifier}${letter}`
    return functions[key.key] || cursorKeys ? `\x1bO${letter}` : `\x1b[${letter}`
  }
  const number = numbers[key.key]
  if (number) return modifier > 1 ? `\x1b[${number};${modifier}~` : `\x1b[${number}~`
  const escape = key.altKey ? '\x1b' : ''
  if (key.key === 'Tab' && key.shiftKey) return '\x1b[Z'
  if (key.key === 'Backspace' && key.ctrlKey) return `${escape}\b`
  const plain = simple[key.key]
  if (plain) return escape + plain
  if ([...key.key].length !== 1) return undefined
  if (!key.ctrlKey) return escape + key.key
  if (/^[a-zA-Z]$/.test(key.key)) return escape + String.fromCharCode(key.key.toUpperCase().charCodeAt(0) & 0x1f)
  const control = controls[key.key]
  return control === undefined ? undefined : escape + control
}
