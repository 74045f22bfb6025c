import { useState } from 'preact/hooks'
import { call, get } from './api'
import { bytes, count, plural } from './format'
import { useAction, usePolled, useTitle } from './hooks'
import { TryIt } from './mcptry'
import { Needs } from './may'
import { Empty, Heading, ProblemBox, SearchField, VirtualRows, When } from './parts'
import { hrefs } from './route'
import type { MCPSession } from './wire'

/** The clients of the Model Context Protocol that have a session. */
export function MCPPage() {
  const { value, problem, again } = usePolled(
    (signal) => get<{ sessions: MCPSession[]; next_cursor: string }>('/v1/mcp/sessions?limit=1000', signal),
    2000,
    [],
  )
  const end = useAction(async (id: string) => {
    await call('DELETE', `/v1/mcp/sessions/${encodeURIComponent(id)}`)
    again()
  })
  useTitle('MCP')
  const [text, setText] = useState('')
  const [trying, setTrying] = useState(false)
  const textOf = ({ client, principal, version, endpoint }: MCPSession) => [client.name, client.version, principal, version, endpoint].join('\n').toLowerCase()
  const rows = value?.sessions.filter((session) => textOf(session).includes(text.toLowerCase())) ?? []
  return (
    <section class="page">
      <div class="bar">
        <h1>MCP</h1>
        <span class="soft" role="status">
          {value ? `${count(rows.length)}${value.next_cursor ? '+' : ''}` : ''}
        </span>
        <SearchField label="Search sessions of MCP" placeholder="Search client, version, principal" text={text} onText={setText} />
        <Needs scope="run">
          <button type="button" class="primary" aria-expanded={trying} onClick={() => setTrying(!trying)}>
            Try a tool
          </button>
        </Needs>
      </div>
      <ProblemBox problem={end.problem ?? problem} onClose={end.clear} />
      {trying && <TryIt />}
      {rows.length > 0 && (
        <div class="table mcp" role="table" aria-label="Sessions of MCP clients" aria-rowcount={rows.length + 1}>
          <Heading names={['Client', 'Protocol', 'Calls', 'Kept', 'Active', '']} />
          <VirtualRows
            rows={rows}
            height={36}
            label="Sessions of MCP clients, newest first"
            keyOf={({ id }) => id}
            draw={(session) => <Cells session={session} busy={end.busy} onEnd={() => void end.run(session.id)} />}
          />
        </div>
      )}
      {value && rows.length === 0 && !trying && text !== '' && <Empty title="Nothing matches" />}
      {value && rows.length === 0 && !trying && text === '' && (
        <Empty title="No client has a session">
          <p>
            Point one at <code>{location.origin}/mcp</code>. Clients of the revision of 2026-07-28 have no sessions; their long calls are
            among the <a href={hrefs.tasks}>tasks</a>.
          </p>
        </Empty>
      )}
    </section>
  )
}

function Cells({ session: s, busy, onEnd }: { session: MCPSession; busy: boolean; onEnd: () => void }) {
  const name = s.client.name || 'a client without a name'
  return (
    <>
      <span role="cell" class="cell-command" title={`${s.id}, ${s.principal}`}>
        <a href={hrefs.mcpSession(s.id)}>{name}</a> <span class="soft">{[s.client.version, s.endpoint === 'mcp' ? '' : s.endpoint].filter(Boolean).join(' · ')}</span>
      </span>
      <span role="cell" class="soft">{s.version}</span>
      <span role="cell" class="number" title={`${plural(s.streams, 'stream')} kept`}>{s.running > 0 ? `${count(s.running)} running` : '–'}</span>
      <span role="cell" class="number">{bytes(s.bytes)}</span>
      <span role="cell" class="soft cell-when"><When time={s.last_activity} /></span>
      <span role="cell">
        <Needs scope="control">
          <button type="button" disabled={busy} aria-label={`End the session of ${name}`} onClick={onEnd}>
            End
          </button>
        </Needs>
      </span>
    </>
  )
}
