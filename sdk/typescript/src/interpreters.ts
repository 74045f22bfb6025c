import { type Caller, type Request, checkName, jsonRequest, pathOf } from './call.js'
import type { Reprise } from './client.js'
import { GapError } from './errors.js'
import { randomID } from './id.js'
import type { CodeException, End, Interpreter, InterpreterList, InterpreterRequest, Shown } from './wire.js'

interface CallOptions {
  signal?: AbortSignal
}

/** What code in an interpreter has come to. */
export interface CodeResult {
  /** That of the execution. */
  id: string
  stdout: string
  stderr: string
  /** The value of the last expression, if it has one. */
  result: Shown | undefined
  /** What the code has shown, in order. */
  displays: Shown[]
  /** Why it has failed, if it has. */
  exception: CodeException | undefined
  /** Undefined if the interpreter was killed with it. */
  exitCode: number | undefined
  end: End
}

/** Interpreters for bash, Python and JavaScript, in which variables and definitions live on from run to run. */
export class Interpreters {
  /** @internal */
  constructor(
    private readonly caller: Caller,
    private readonly client: Reprise,
  ) {}

  /** Starts an interpreter. It is tried again after a lost connection, and there is one: each has an id. */
  open(request: InterpreterRequest, options: CallOptions = {}): Promise<Interpreter> {
    const body = { ...request, id: request.id || randomID() }
    return this.caller.json(jsonRequest(`open interpreter ${body.id}`, 'POST', '/v1/interpreters', body), options.signal)
  }

  /** Returns all interpreters that are kept, newest first. */
  list(options: CallOptions = {}): Promise<InterpreterList> {
    return this.caller.json({ op: 'list interpreters', method: 'GET', path: '/v1/interpreters' }, options.signal)
  }

  /** Returns the state of an interpreter. */
  async show(id: string, options: CallOptions = {}): Promise<Interpreter> {
    return this.caller.json(request('show', 'GET', id), options.signal)
  }

  /**
   * Runs code to its end, once, however the connection breaks, and returns what it has come to. An interpreter runs one piece
   * of code at a time; more is refused as `conflict`. To follow the events of code as they come, give {@link Reprise.run} the
   * members `interpreter` and `code`. Output that is no longer kept is a {@link GapError}.
   */
  run(id: string, code: string, options: { id?: string; timeout?: string } & CallOptions = {}): Promise<CodeResult> {
    const { signal, ...members } = options
    return this.finish({ interpreter: id, code, ...members }, signal)
  }

  /** Forgets all that was declared, and goes back to the first directory and environment. */
  clear(id: string, options: CallOptions = {}): Promise<CodeResult> {
    return this.finish({ interpreter: id, clear: true }, options.signal)
  }

  /** Interrupts the code that runs, and not the interpreter. Without any it does nothing. */
  async interrupt(id: string, options: CallOptions = {}): Promise<void> {
    return this.caller.empty(request('interrupt', 'POST', id, '/interrupt'), options.signal)
  }

  /** Ends an interpreter and forgets it. The executions of its code are kept. */
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
    throw new Error('unreachable: a loop without an end event throws')
  }
}

function request(verb: string, method: string, id: string, rest = ''): Request {
  const op = `${verb} interpreter ${id}`
  checkName(op, id)
  return { op, method, path: pathOf('interpreters', id, rest) }
}
