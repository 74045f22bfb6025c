import { useEffect, useRef, useState } from 'preact/hooks'
import { call, pathOf } from './api'
import { useMay } from './may'
import { Board } from './term/board'
import { Typist } from './typist'
import type { Watch } from './watch'
import type { Execution } from './wire'

/** How long a window has to keep a size before the terminal gets it. */
const settled = 150

/** The terminal of a run: what its program has drawn, and keys for it while it runs. */
export function TerminalPanel({ watch, execution }: { watch: Watch; execution: Execution }) {
  const { id, tty } = execution
  const box = useRef<HTMLDivElement>(null)
  const [focused, setFocused] = useState(false)
  const [typist, setTypist] = useState<Typist>()
  const [, redraw] = useState(0)
  const running = execution.status === 'running'
  const may = useMay('control')
  const terminal = watch.terminal!
  useEffect(() => {
    terminal.resize(tty?.cols ?? 80, tty?.rows ?? 24)
    watch.changed()
  }, [tty?.cols, tty?.rows])
  useEffect(() => {
    const keys = new Typist(id, () => redraw((n) => n + 1))
    setTypist(keys)
    let attached = false
    let timer: ReturnType<typeof setTimeout> | undefined
    const resize = (cols: number, rows: number) => {
      if (!attached || watch.end || (cols === terminal.cols && rows === terminal.rows)) return
      clearTimeout(timer)
      timer = setTimeout(() => {
        terminal.resize(cols, rows)
        board.request()
        redraw((n) => n + 1)
        void call('POST', pathOf('executions', id, '/resize'), { cols, rows }).catch(() => {}) // the next size, or none
      }, settled)
    }
    const board = new Board(box.current!, terminal, {
      type: (text) => {
        if (attached && !watch.end) keys.type(text)
      },
      focus: (now) => {
        setFocused(now)
        if (!now || attached || watch.end || !may) return
        attached = true // from here on the terminal has the size of this window
        resize(...board.fit())
      },
      size: resize,
    })
    terminal.onAnswer = (text) => {
      if (attached && watch.follower.phase === 'live') keys.type(text)
    }
    const stop = watch.subscribe(() => board.request())
    return () => {
      stop()
      clearTimeout(timer)
      keys.stop()
      terminal.onAnswer = undefined
      board.close()
    }
  }, [watch, id, may])
  return (
    <div class="output">
      <div class={`term board ${focused && running && may ? 'is-typing' : ''}`} ref={box} role="group" aria-label="Terminal" />
      <p class="statusline soft" role="status">
        <span>{running && !may ? 'This login may only watch.' : stateOf(running, focused, typist)}</span>
        {terminal.title !== '' && <span>{terminal.title}</span>}
        <span class="mono">
          {terminal.cols}×{terminal.rows}
        </span>
      </p>
    </div>
  )
}

function stateOf(running: boolean, focused: boolean, typist: Typist | undefined): string {
  if (!running) return 'What was on the screen at the end.'
  if (typist?.problem) return `Nothing can be typed: ${typist.problem.message}`
  if (typist?.waiting) return 'What you type is kept, and sent once the server answers.'
  return focused ? 'All keys go to the program; Shift+Esc leaves it.' : 'Click to type into it.'
}
