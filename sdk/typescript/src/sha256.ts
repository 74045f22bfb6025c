/** The constants and the first state: fraction bits of the cube and square roots of primes (FIPS 180-4, sections 4.2.2 and 5.3.3). */
const constants = new Uint32Array(64)
const first = new Uint32Array(8)
for (let n = 2, found = 0; found < 64; n++) {
  let prime = true
  for (let d = 2; d * d <= n; d++) if (n % d === 0) prime = false
  if (!prime) continue
  if (found < 8) first[found] = (n ** 0.5 % 1) * 2 ** 32
  constants[found++] = (n ** (1 / 3) % 1) * 2 ** 32
}

/**
 * SHA-256 of bytes that come one after the other. The platform's own digest takes all of them at once, and is not there in a
 * page that came over plain HTTP.
 */
export class SHA256 {
  private readonly state = first.slice()
  private readonly words = new Uint32Array(64)
  private readonly block = new Uint8Array(64)
  private filled = 0
  private length = 0

  update(bytes: Uint8Array): void {
    this.length += bytes.length
    for (let at = 0; at < bytes.length; ) {
      if (this.filled === 0 && bytes.length - at >= 64) {
        this.mix(bytes, at)
        at += 64
        continue
      }
      const part = bytes.subarray(at, at + 64 - this.filled)
      this.block.set(part, this.filled)
      this.filled += part.length
      at += part.length
      if (this.filled === 64) {
        this.mix(this.block, 0)
        this.filled = 0
      }
    }
  }

  /** The digest in hexadecimal. No more bytes may come afterwards. */
  hex(): string {
    const end = new Uint8Array(((this.filled < 56 ? 64 : 128) - this.filled) | 0)
    end[0] = 128
    const bits = new DataView(end.buffer)
    bits.setUint32(end.length - 8, Math.floor(this.length / 2 ** 29))
    bits.setUint32(end.length - 4, (this.length << 3) >>> 0)
    this.update(end)
    return [...this.state].map((word) => word.toString(16).padStart(8, '0')).join('')
  }

  private mix(bytes: Uint8Array, at: number): void {
    const { words, state } = this
    for (let i = 0; i < 16; i++, at += 4) {
      words[i] = (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!
    }
    for (let i = 16; i < 64; i++) {
      const x = words[i - 15]!
      const y = words[i - 2]!
      const s0 = ((x >>> 7) | (x << 25)) ^ ((x >>> 18) | (x << 14)) ^ (x >>> 3)
      const s1 = ((y >>> 17) | (y << 15)) ^ ((y >>> 19) | (y << 13)) ^ (y >>> 10)
      words[i] = words[i - 16]! + s0 + words[i - 7]! + s1
    }
    let [a, b, c, d, e, f, g, h] = state as unknown as [number, number, number, number, number, number, number, number]
    for (let i = 0; i < 64; i++) {
      const s1 = ((e >>> 6) | (e << 26)) ^ ((e >>> 11) | (e << 21)) ^ ((e >>> 25) | (e << 7))
      const t1 = (h + s1 + ((e & f) ^ (~e & g)) + constants[i]! + words[i]!) | 0
      const s0 = ((a >>> 2) | (a << 30)) ^ ((a >>> 13) | (a << 19)) ^ ((a >>> 22) | (a << 10))
      const t2 = (s0 + ((a & b) ^ (a & c) ^ (b & c))) | 0
      h = g
      g = f
      f = e
      e = (d + t1) | 0
      d = c
      c = b
      b = a
      a = (t1 + t2) | 0
    }
    for (const [i, word] of [a, b, c, d, e, f, g, h].entries()) state[i]! += word
  }
}
