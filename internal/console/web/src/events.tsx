import { useState } from 'preact/hooks'
import { bytes, clock, copyText, count } from './format'
import { useChanges } from './hooks'
import { Empty, Heading, VirtualRows } from './parts'
import type { EventRow, Watch } from './watch'

/** The events of a stream with their ids, the newest last. */
export function EventTable({ watch }: { watch: Watch }) {
  const [open, setOpen] = useState<EventRow>()
  useChanges((changed) => watch.subscribe(changed), 100, [watch])
  const { rows, droppedRows } = watch
  if (rows.length === 0) return <Empty title="No events yet" />
  return (
    <div class="events">
      <div class="table events-table" role="table" aria-label="Events" aria-rowcount={rows.length + 1}>
        <Heading names={['Seq', 'Time', 'Type', 'Data', 'Size']} />
        <VirtualRows
          rows={rows}
          height={28}
          label="Events, newest last"
          stickToEnd
          keyOf={(_, index) => index + droppedRows}
          draw={(row) => <Cells row={row} onOpen={() => setOpen(row)} />}
        />
      </div>
      {droppedRows > 0 && <p class="soft statusline">the first {count(droppedRows)} events are no longer on this page</p>}
      {open && <Opened row={open} onClose={() => setOpen(undefined)} />}
    </div>
  )
}

function Cells({ row, onOpen }: { row: EventRow; onOpen: () => void }) {
  const text = textOf(row)
  return (
    <>
      <span role="cell" class="mono number">
        <button type="button" class="quiet" aria-label={`Event ${row.seq}`} onClick={onOpen}>
          {row.seq === 0 ? '–' : count(row.seq)}
        </button>
      </span>
      <span role="cell" class="mono soft">{row.time && clock(row.time)}</span>
      <span role="cell" class={`type type-${row.type}`}>{row.type}</span>
      <span role="cell" class="mono cell-data">{text.slice(0, 300)}</span>
      <span role="cell" class="number soft">{bytes(text.length)}</span>
    </>
  )
}

/** The whole of one event. */
function Opened({ row, onClose }: { row: EventRow; onClose: () => void }) {
  const cursor = `${row.seq}${row.suffix}`
  const { seq: _, time: __, ...rest } = row.data
  const value = row.data.data ?? row.data.text ?? rest
  return (
    <aside class="opened" aria-label={`Event ${row.seq}`}>
      <div class="bar">
        <strong>{row.seq === 0 ? row.type : `Event ${count(row.seq)}`}</strong>
        <button type="button" class="quiet mono" title="Copy the cursor" onClick={() => void copyText(cursor)}>
          {cursor}
        </button>
        <span class="grow" />
        <button type="button" class="quiet" aria-label="Close" onClick={onClose}>
          ✕
        </button>
      </div>
      <pre class="mono" tabIndex={0}>
        {(typeof value === 'string' ? value : JSON.stringify(value, null, 2)).slice(0, 200_000)}
      </pre>
    </aside>
  )
}

/** What an event says, in one line. */
function textOf({ data }: EventRow): string {
  if (data.data !== undefined) return JSON.stringify(data.data)
  if (data.text !== undefined) return data.text
  if (data.base64 !== undefined) return `base64 ${data.base64}`
  const { seq: _, time: __, ...rest } = data
  return JSON.stringify(rest)
}
