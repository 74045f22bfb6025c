import { useEffect, useRef, useState } from 'preact/hooks'
import { type Problem, call, pathOf, problemOf } from './api'
import { useMay } from './may'
import { ProblemBox } from './parts'
import { Typist } from './typist'
import type { Watch } from './watch'
import type { Execution } from './wire'
import type { Terminal } from './xterm/terminal'

/** How long a window has to keep a size before the terminal gets it. */
const settled = 150
const aloudKey = 'reprise read aloud'

/** The terminal of a run: what its program has drawn, and keys for it while it runs. */
export function TerminalPanel({ watch, execution }: { watch: Watch; execution: Execution }) {
  const { id, tty } = execution
  const box = useRef<HTMLDivElement>(null)
  const { terminal, problem } = useTerminal(watch)
  const [focused, setFocused] = useState(false)
  const [aloud, setAloud] = useState(() => localStorage.getItem(aloudKey) !== null)
  const [typist, setTypist] = useState<Typist>()
  const [, redraw] = useState(0)
  const running = execution.status === 'running'
  const may = useMay('control')
  useEffect(() => terminal?.resize(tty?.cols ?? 80, tty?.rows ?? 24), [terminal, tty?.cols, tty?.rows])
  useEffect(() => terminal?.readAloud(aloud), [terminal, aloud])
  useEffect(() => {
    if (!terminal) return
    const keys = new Typist(id, () => redraw((n) => n + 1))
    setTypist(keys)
    let attached = false
    let timer: ReturnType<typeof setTimeout> | undefined
    const resize = () => {
      clearTimeout(timer)
      const [cols, rows] = terminal.fit()
      if (!attached || watch.end || (cols === terminal.cols && rows === terminal.rows)) return
      timer = setTimeout(() => {
        terminal.resize(cols, rows)
        redraw((n) => n + 1)
        void call('POST', pathOf('executions', id, '/resize'), { cols, rows }).catch(() => {}) // the next size, or none
      }, settled)
    }
    const hide = terminal.show(box.current!, {
      type: (bytes) => {
        if (attached && !watch.end) keys.type(bytes)
      },
      focus: (now) => {
        setFocused(now)
        if (!now || attached || watch.end || !may) return
        attached = true // from here on the terminal has the size of this window
        resize()
      },
      room: resize,
    })
    const stop = watch.subscribe(() => redraw((n) => n + 1))
    return () => {
      stop()
      hide()
      clearTimeout(timer)
      keys.stop()
    }
  }, [terminal, watch, id, may])
  const readAloud = (on: boolean) => {
    setAloud(on)
    if (on) localStorage.setItem(aloudKey, '1')
    else localStorage.removeItem(aloudKey)
  }
  return (
    <div class="output">
      <div class={`term board ${focused && running && may ? 'is-typing' : ''}`} ref={box} role="group" aria-label="Terminal" />
      <ProblemBox problem={problem} />
      <p class="statusline soft" role="status">
        <span>{running && !may ? 'This login may only watch.' : stateOf(running, focused, typist)}</span>
        {terminal && terminal.title !== '' && <span>{terminal.title}</span>}
        <span class="mono">{terminal && `${terminal.cols}×${terminal.rows}`}</span>
        <label class="check">
          <input type="checkbox" checked={aloud} onChange={(event) => readAloud(event.currentTarget.checked)} />
          Screen reader
        </label>
      </p>
    </div>
  )
}

/** The terminal of a run, once the code that draws it has come. */
function useTerminal(watch: Watch): { terminal?: Terminal; problem?: Problem } {
  const [got, setGot] = useState<{ watch?: Watch; terminal?: Terminal; problem?: Problem }>({})
  useEffect(() => {
    let left = false
    watch.terminal!.then(
      (terminal) => !left && setGot({ watch, terminal }),
      (error: unknown) => !left && setGot({ watch, problem: problemOf(error) }),
    )
    return () => {
      left = true
    }
  }, [watch])
  return got.watch === watch ? got : {}
}

function stateOf(running: boolean, focused: boolean, typist: Typist | undefined): string {
  if (!running) return 'What was on the screen at the end.'
  if (typist?.problem) return `Nothing can be typed: ${typist.problem.message}`
  if (typist?.waiting) return 'What you type is kept, and sent once the server answers.'
  return focused ? 'All keys go to the program; Shift+Esc leaves it.' : 'Click to type into it.'
}
