import { type Caller, type Request, checkName, jsonRequest, pathOf } from './call.js'
import type { Reprise } from './client.js'
import { GapError } from './errors.js'
import { randomID } from './id.js'
import type { CodeException, End, Interpreter, InterpreterList, InterpreterRequest, Shown } from './wire.js'

interface CallOptions {
  signal?: AbortSignal
}

/** The result of code in an interpreter. */
export interface CodeResult {
  /** The id of the execution. */
  id: string
  stdout: string
  stderr: string
  /** The value of the last expression, if it has one. */
  result: Shown | undefined
  /** The displayed values, in order. */
  displays: Shown[]
  /** The failure of the code, if it has failed. */
  exception: CodeException | undefined
  /** Undefined if the code was killed together with the interpreter. */
  exitCode: number | undefined
  end: End
}

/** Interpreters for bash, Python and JavaScript, which keep variables and definitions from run to run. */
export class Interpreters {
  /** @internal */
  constructor(
    private readonly caller: Caller,
    private readonly client: Reprise,
  ) {}

  /** Starts an interpreter. It is retried after a lost connection and starts only one, because every request carries an id. */
  open(request: InterpreterRequest, options: CallOptions = {}): Promise<Interpreter> {
    const body = { ...request, id: request.id || randomID() }
    return this.caller.json(jsonRequest(`open interpreter ${body.id}`, 'POST', '/v1/interpreters', body), options.signal)
  }

  /** Returns all kept interpreters, newest first. */
  list(options: CallOptions = {}): Promise<InterpreterList> {
    return this.caller.json({ op: 'list interpreters', method: 'GET', path: '/v1/interpreters' }, options.signal)
  }

  /** Returns the state of an interpreter. */
  async show(id: string, options: CallOptions = {}): Promise<Interpreter> {
    return this.caller.json(request('show', 'GET', id), options.signal)
  }

  /**
   * Runs code to its end, once, however often the connection breaks, and returns its result. An interpreter runs one piece of
   * code at a time; further code is refused as `conflict`. To follow the events of code as they arrive, pass the members
   * `interpreter` and `code` to {@link Reprise.run}. Output that is no longer kept is a {@link GapError}.
   */
  run(id: string, code: string, options: { id?: string; timeout?: string } & CallOptions = {}): Promise<CodeResult> {
    const { signal, ...members } = options
    return this.finish({ interpreter: id, code, ...members }, signal)
  }

  /** Deletes all definitions, and restores the first directory and environment. */
  clear(id: string, options: CallOptions = {}): Promise<CodeResult> {
    return this.finish({ interpreter: id, clear: true }, options.signal)
  }

  /** Interrupts the running code, but not the interpreter. Without running code it does nothing. */
  async interrupt(id: string, options: CallOptions = {}): Promise<void> {
    return this.caller.empty(request('interrupt', 'POST', id, '/interrupt'), options.signal)
  }

  /** Ends and removes an interpreter. The executions of its code are kept. */
  async remove(id: string, options: CallOptions = {}): Promise<void> {
    return this.caller.empty(request('remove', 'DELETE', id), options.signal)
  }

  private async finish(start: Parameters<Reprise['run']>[0], signal: AbortSignal | undefined): Promise<CodeResult> {
    const run = this.client.run(start, signal ? { signal } : {})
    const all = { id: run.id, stdout: '', stderr: '', displays: [] as Shown[] }
    let result: Shown | undefined
    let exception: CodeException | undefined
    for await (const event of run) {
      switch (event.type) {
        case 'stdout':
        case 'stderr':
          all[event.type] += event.text
          break
        case 'result':
          result = event.data
          break
        case 'display':
          all.displays.push(event.data)
          break
        case 'exception':
          exception = event.data
          break
        case 'gap':
          throw new GapError(event.data)
        case 'end':
          return { ...all, result, exception, exitCode: event.data.exit_code ?? undefined, end: event.data }
      }
    }
    throw new Error('unreachable')
  }
}

function request(verb: string, method: string, id: string, rest = ''): Request {
  const op = `${verb} interpreter ${id}`
  checkName(op, id)
  return { op, method, path: pathOf('interpreters', id, rest) }
}
