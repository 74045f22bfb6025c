import { useState } from 'preact/hooks'
import { call } from './api'
import { retentionOf } from './format'
import { useAction } from './hooks'
import { ProblemBox } from './parts'

/** Changes how much of a stream or an execution is kept. An empty field changes nothing. */
export function Retain({ path, again }: { path: string; again: () => void }) {
  const [fields, setFields] = useState({ events: '', size: '', age: '' })
  const change = useAction(async () => {
    await call('PATCH', path, { retention: retentionOf(fields) })
    setFields({ events: '', size: '', age: '' })
    again()
  })
  const field = (name: keyof typeof fields, label: string, placeholder: string) => (
    <input
      class="mono"
      aria-label={label}
      placeholder={placeholder}
      size={12}
      value={fields[name]}
      onInput={(event) => setFields({ ...fields, [name]: event.currentTarget.value })}
    />
  )
  return (
    <form
      class="retain"
      onSubmit={(event) => {
        event.preventDefault()
        void change.run()
      }}
    >
      {field('age', 'Keep for, after the end', 'keep for: 48h')}
      {field('size', 'MiB to keep', 'MiB to keep')}
      {field('events', 'Events to keep', 'events to keep')}
      <button type="submit" disabled={change.busy || Object.values(fields).every((text) => !text)}>Keep</button>
      <ProblemBox problem={change.problem} onClose={change.clear} />
    </form>
  )
}
