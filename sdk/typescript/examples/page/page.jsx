// A page that shows the output of a run, with the hook of reprise/react. It reads from the Reprise server itself, with a ticket.
import { createRoot } from 'react-dom/client'
import { Reprise } from 'reprise'
import { useStream } from 'reprise/react'

function Output({ url, id, ticket }) {
  const { value, status, error } = useStream(
    (options) => new Reprise({ url }).follow(id, { ...options, ticket }),
    [url, id, ticket],
    { initial: '', reduce: (text, event) => text + show(event) },
  )
  return (
    <>
      <pre>{value}</pre>
      <p id="status">{error ? error.message : status}</p>
    </>
  )
}

function show(event) {
  if (event.type === 'gap') return `[${event.data.missed} events are no longer kept]\n`
  if (event.type === 'end') return `[${event.data.outcome} ${event.data.exit_code ?? ''}]\n`
  return event.type === 'started' ? '' : event.text
}

const { url, id, ticket } = await (await fetch('/run')).json()
createRoot(document.getElementById('root')).render(<Output url={url} id={id} ticket={ticket} />)
