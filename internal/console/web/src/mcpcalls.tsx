import { useState } from 'preact/hooks'
import { get } from './api'
import { bytes, count, duration, plural } from './format'
import { usePolled, useTick, useTitle } from './hooks'
import { Empty, Heading, ProblemBox, Row, SearchField, VirtualRows, When } from './parts'
import { hrefs } from './route'
import type { MCPCall, MCPSession } from './wire'

/** A session of a client of the Model Context Protocol, with its kept calls. */
export function MCPSessionPage({ id }: { id: string }) {
  const path = `/v1/mcp/sessions/${encodeURIComponent(id)}`
  const { value, problem } = usePolled(
    async (signal) => {
      const [session, page] = await Promise.all([
        get<MCPSession>(path, signal),
        get<{ calls: MCPCall[]; next_cursor: string }>(`${path}/calls?limit=1000`, signal),
      ])
      return { session, ...page }
    },
    2000,
    [path],
  )
  const name = value?.session.client.name || 'MCP session'
  useTitle(name)
  const [text, setText] = useState('')
  const rows = value?.calls.filter((c) => `${c.method}\n${c.name}\n${c.status}`.toLowerCase().includes(text.toLowerCase())) ?? []
  useTick(1000, rows.some(({ status }) => status === 'running'))
  return (
    <section class="page">
      <div class="bar">
        <h1>{name}</h1>
        <span class="soft" role="status">{value ? `${plural(rows.length, 'call')}${value.next_cursor ? ' or more' : ''}` : ''}</span>
        <SearchField label="Search calls" placeholder="Search method, tool, state" text={text} onText={setText} />
        <a class="button" href={hrefs.mcp}>
          All sessions
        </a>
      </div>
      <ProblemBox problem={problem} />
      {value && <Facts session={value.session} />}
      {rows.length > 0 && (
        <div class="table mcp-calls" role="table" aria-label="Calls" aria-rowcount={rows.length + 1}>
          <Heading names={['State', 'Call', 'Took', 'Messages', 'Size', 'Begun']} />
          <VirtualRows rows={rows} height={36} label="Calls, newest first" keyOf={(c) => c.id} draw={(c) => <Cells call={c} />} />
        </div>
      )}
      {value && rows.length === 0 && (
        <Empty title={text === '' ? 'No calls are kept' : 'Nothing matches'}>
          {text === '' && <p>A call that is answered at once is not kept, since nobody has to resume it.</p>}
        </Empty>
      )}
    </section>
  )
}

function Facts({ session: s }: { session: MCPSession }) {
  return (
    <dl class="details">
      <Row name="Session"><span class="mono">{s.id}</span></Row>
      <Row name="Client">{[s.client.name, s.client.version].filter(Boolean).join(' ')}</Row>
      <Row name="Protocol">{s.version}</Row>
      <Row name="Principal">{s.principal}</Row>
      <Row name="Opened"><When time={s.created} /></Row>
    </dl>
  )
}

function Cells({ call: c }: { call: MCPCall }) {
  const took = (c.ended ? Date.parse(c.ended) : Date.now()) - Date.parse(c.created)
  return (
    <>
      <span role="cell">
        <span class={`state tone-${c.status === 'running' ? 'run' : 'good'}`}>
          <span class="dot" aria-hidden="true" />
          {c.status}
        </span>
      </span>
      <span role="cell" class="cell-command" title={c.id}>
        <b>{c.name || c.method || 'a call of an earlier version'}</b>{' '}
        <span class="soft">{[c.name ? c.method : '', c.requests > 1 ? plural(c.requests, 'request') : ''].filter(Boolean).join(' · ')}</span>
      </span>
      <span role="cell" class="number">{duration(Math.max(0, took))}</span>
      <span role="cell" class="number">{count(c.events)}</span>
      <span role="cell" class="number">{bytes(c.bytes)}</span>
      <span role="cell" class="soft cell-when"><When time={c.created} /></span>
    </>
  )
}
