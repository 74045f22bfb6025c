import { type AddressInfo, type Server, type Socket, connect, createServer } from 'node:net'
import type { TestContext } from 'node:test'

/** What happens to a connection after so many bytes of its answers. */
export interface Cut {
  after: number
  how: 'fin' | 'rst' | 'stall'
}

/** A TCP proxy that cuts connections. */
export class Cutter {
  /** The number of connections that were cut, and that were made. */
  cuts = 0
  connections = 0
  private readonly sockets = new Set<Socket>()
  private readonly server: Server

  /** Passes connections on to target; plan says what happens to the n-th, 0 being the first. */
  static async start(t: TestContext, target: string, plan: (n: number) => Cut | undefined): Promise<Cutter> {
    const cutter = new Cutter(new URL(target), plan)
    t.after(() => cutter.close())
    await new Promise<void>((resolve) => cutter.server.listen(0, '127.0.0.1', resolve))
    return cutter
  }

  private constructor(
    private readonly target: URL,
    private readonly plan: (n: number) => Cut | undefined,
  ) {
    this.server = createServer((client) => this.pass(client, this.connections++))
  }

  get url(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`
  }

  close(): void {
    this.server.close()
    for (const socket of this.sockets) socket.destroy()
  }

  private pass(client: Socket, n: number): void {
    const server = connect(Number(this.target.port), this.target.hostname)
    for (const socket of [client, server]) {
      socket.setNoDelay(true)
      this.sockets.add(socket)
      socket.on('error', () => {}) // a reset is what this is for
      socket.on('close', () => {
        this.sockets.delete(socket)
        client.destroy()
        server.destroy()
      })
    }
    client.pipe(server)
    const cut = this.plan(n)
    let left = cut?.after ?? Infinity
    const strike = () => {
      this.cuts++
      server.pause()
      if (cut!.how === 'fin') client.end()
      else if (cut!.how === 'rst') client.resetAndDestroy()
    }
    if (left === 0) return strike()
    server.on('data', (bytes) => {
      const part = bytes.subarray(0, left)
      left -= part.length
      const room = client.write(part)
      if (left === 0) {
        strike()
      } else if (!room) {
        server.pause()
        client.once('drain', () => server.resume())
      }
    })
  }
}
