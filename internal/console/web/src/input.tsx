import { useEffect, useState } from 'preact/hooks'
import { pathOf, send } from './api'
import { useAction } from './hooks'
import { ProblemBox } from './parts'

interface StdinState {
  offset: number
  open: boolean
}

/** A line to type into the stdin of a run, where that is open. */
export function Input({ id }: { id: string }) {
  const [state, setState] = useState<StdinState>()
  const [line, setLine] = useState('')
  /** What was sent without an answer: the same text again goes to the same place, so that it is not there twice. */
  const [pending, setPending] = useState<{ text: string; offset: number }>()
  const write = async (text: string, query: string) => {
    const headers = { 'Content-Type': 'application/octet-stream' }
    const response = await send(pathOf('executions', id, `/stdin${query}`), { method: 'POST', headers, body: text })
    const told = (await response.json()) as StdinState
    setState(told)
    return told
  }
  useEffect(() => {
    void write('', '').catch(() => setState(undefined)) // it has no stdin
  }, [id])
  const act = useAction(async (text: string, eof: boolean) => {
    const offset = pending?.text === text ? pending.offset : (await write('', '')).offset
    setPending({ text, offset })
    await write(text, `?offset=${offset}${eof ? '&eof=true' : ''}`)
    setPending(undefined)
    setLine((now) => (now === line ? '' : now)) // what was typed meanwhile stays
  })
  if (!state?.open) return null
  return (
    <form
      class="bar input"
      onSubmit={(event) => {
        event.preventDefault()
        void act.run(`${line}\n`, false)
      }}
    >
      <span class="mono" aria-hidden="true">
        ›
      </span>
      <input
        class="mono grow"
        aria-label="A line for stdin"
        placeholder="A line for stdin"
        autocomplete="off"
        spellcheck={false}
        value={line}
        onInput={(event) => setLine(event.currentTarget.value)}
      />
      <button type="submit" disabled={act.busy}>
        Send
      </button>
      <button type="button" disabled={act.busy} title="Close stdin" onClick={() => void act.run(line, true)}>
        End of input
      </button>
      <ProblemBox problem={act.problem} onClose={act.clear} />
    </form>
  )
}
