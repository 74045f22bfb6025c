/** A cursor in its parts. Programs treat cursors as opaque; this client is of the server's making and reads them. */
export interface CursorParts {
  seq: number
  epoch: string
  tag: string
}

const form = /^(0|[1-9][0-9]{0,15})\.([0-9A-HJKMNP-TV-Z]{16})\.([0-9A-HJKMNP-TV-Z]{13})$/

/** Reads `<seq>.<epoch>.<tag>`. It returns undefined for a text that is not in this form. */
export function parseCursor(text: string): CursorParts | undefined {
  const match = form.exec(text)
  if (!match) return undefined
  const seq = Number(match[1])
  return Number.isSafeInteger(seq) ? { seq, epoch: match[2]!, tag: match[3]! } : undefined
}

/** The inverse of parseCursor. */
export function formatCursor(cursor: CursorParts): string {
  return `${cursor.seq}.${cursor.epoch}.${cursor.tag}`
}

/** Reports whether text can be sent as a cursor: printable ASCII. */
export function isCursorText(text: string): boolean {
  return text.length <= 1024 && /^[!-~]+$/.test(text)
}
