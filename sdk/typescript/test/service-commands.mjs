// The commands of the service contract of "reprise check-client", for any place where the client runs: service.mjs in Node,
// ../examples/service-chromium.mjs in a page.

/** What a service with this client says of itself. */
export const kind = { kind: 'reprise', can: ['types', 'gap', 'tail', 'run', 'publish'] }

/**
 * Returns take, which begins the command of a line, and finish, which stops all of them. write is given each line of the answers.
 * base64 encodes bytes.
 */
export function commands({ Reprise, write, base64 }) {
  const say = (message) => write(JSON.stringify(message))
  const stops = new Map()
  const running = new Set()

  function client(command) {
    const { url, token, min_wait_ms: minWait, max_wait_ms: maxWait } = command
    return new Reprise({ url, token, ...(minWait && { minWait }), ...(maxWait && { maxWait }) })
  }

  function options(command, signal) {
    const { after, types, gap, idle_ms: idleTimeout } = command
    return {
      signal,
      onGap: gap === 'fail' ? 'raise' : 'event',
      ...(after && { after }),
      ...(types?.length && { types }),
      ...(idleTimeout && { idleTimeout }),
    }
  }

  /** Tells an event. JSON is told as it came: its numbers keep their digits. */
  function give(id, event) {
    if (event.type === 'gap') {
      const { code, missed, taken_back } = event.data
      return say({ id, gap: { code, missed, ...(taken_back && { taken_back }) } })
    }
    const { seq, cursor, type } = event
    const start = JSON.stringify({ id, event: { seq, cursor, type } }).slice(0, -2)
    const data = event.isJSON ? `"json":${event.text.replaceAll(/[\r\n]/g, ' ')}` : `"data":"${base64(event.bytes)}"`
    write(`${start},${data}}}`)
  }

  const verbs = {
    async follow(command, signal) {
      for await (const event of client(command).streams.follow(command.stream, options(command, signal))) give(command.id, event)
    },
    async run(command, signal) {
      const request = { ...(command.execution && { id: command.execution }), argv: command.argv }
      const chosen = { ...options(command, signal), ...(command.detach && { detach: true }) }
      for await (const event of client(command).run(request, chosen)) give(command.id, event)
    },
    async publish(command, signal) {
      const producer = client(command).producer(command.stream)
      const tasks = command.at_once ?? 1
      const task = async (_, first) => {
        for (let n = first + 1; n <= command.count; n += tasks) await producer.publish({ type: 'note', data: { n } }, { signal })
      }
      await Promise.all(Array.from({ length: tasks }, task))
    },
  }

  async function perform(command) {
    const stop = new AbortController()
    stops.set(command.id, stop)
    try {
      await verbs[command.do](command, stop.signal)
    } catch (error) {
      // The client's own codes are not the server's.
      const code = error.problem?.code ?? error.gap?.code ?? ''
      if (!stop.signal.aborted) say({ id: command.id, error: { code, text: String(error.message) } })
    }
    stops.delete(command.id)
    say({ id: command.id, done: true })
  }

  return {
    take(line) {
      const command = JSON.parse(line)
      if (command.do === 'stop') {
        stops.get(command.id)?.abort()
        return
      }
      const task = perform(command)
      running.add(task)
      task.then(() => running.delete(task))
    },
    async finish() {
      for (const stop of stops.values()) stop.abort()
      await Promise.all(running)
    },
  }
}
