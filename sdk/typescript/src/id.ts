const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** Returns an id of 26 characters (130 bits) that nobody can guess. */
export function randomID(): string {
  let id = ''
  for (const byte of crypto.getRandomValues(new Uint8Array(26))) id += alphabet[byte & 31]
  return id
}
