import { pathOf } from './api'
import { bytes, commandOf, duration, isolationText, moment } from './format'
import { Needs } from './may'
import { Row, State } from './parts'
import { Retain } from './retain'
import type { Execution } from './wire'

/** All that the server says of a run. */
export function Details({ execution: e, again }: { execution: Execution; again: () => void }) {
  const { usage, isolation } = e
  return (
    <dl class="details" tabIndex={0} aria-label="Details">
      <Row name="Outcome">
        <State execution={e} />
      </Row>
      <Row name="Exit code">{e.exit_code}</Row>
      <Row name="Signal">{e.signal}</Row>
      <Row name="Reason">{e.error}</Row>
      <Row name="Command">
        <pre class="mono">{commandOf(e)}</pre>
      </Row>
      <Row name="Directory">{e.cwd}</Row>
      <Row name="Environment">{e.env_names?.join(', ')}</Row>
      <Row name="Timeout">{e.timeout}</Row>
      <Row name="Created">{moment(e.created)}</Row>
      <Row name="Started">{e.started && moment(e.started)}</Row>
      <Row name="Ended">{e.ended && moment(e.ended)}</Row>
      <Row name="Duration">{e.duration_ms !== null && duration(e.duration_ms)}</Row>
      <Row name="CPU">{usage && `${duration(usage.user_ms)} user, ${duration(usage.system_ms)} system`}</Row>
      <Row name="Memory at most">{usage && usage.max_rss_bytes > 0 && bytes(usage.max_rss_bytes)}</Row>
      <Row name="Output">
        {e.status === 'ended' && `stdout ${bytes(e.bytes.stdout)}, stderr ${bytes(e.bytes.stderr)}`}
        {e.output_truncated && ', truncated'}
      </Row>
      <Row name="Isolation">{isolation && isolationText(isolation)}</Row>
      <Row name="Kept from">
        <code>{e.window?.earliest}</code>
      </Row>
      <Row name="Kept to">
        <code>{e.window?.tail}</code>
      </Row>
      <Row name="Retention">
        <Needs scope="control"><Retain path={pathOf('executions', e.id)} again={again} /></Needs>
      </Row>
    </dl>
  )
}
