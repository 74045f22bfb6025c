import { useEffect, useState } from 'preact/hooks'
import type { Follower, Phase } from './follow'
import { count, plural } from './format'
import { useChanges, useTick } from './hooks'
import type { Ledger, Part } from './ledger'
import type { Watch } from './watch'

const words: Record<Phase, string> = {
  connecting: 'Connecting',
  replaying: 'Replaying',
  live: 'Live',
  cut: 'Cut',
  waiting: 'Connection lost',
  ended: 'Ended',
  failed: 'Stopped',
}

/**
 * Cuts the page's own connection, and shows that nothing is lost or doubled by it: a line, and all counts when they are asked
 * for, or when something has happened to the connection.
 */
export function Strip({ watch }: { watch: Watch }) {
  const { follower, ledger } = watch
  const [again, setAgain] = useState(false)
  const [chosen, setChosen] = useState<boolean>()
  useChanges((changed) => watch.subscribe(changed), 100, [watch])
  const { phase } = follower
  const over = phase === 'ended' || phase === 'failed'
  useEffect(() => {
    if (!again || over) return
    const timer = setInterval(() => (follower.phase === 'cut' ? follower.resume() : follower.cut()), 1500)
    return () => {
      clearInterval(timer)
      follower.resume()
    }
  }, [again, over, follower])
  const cut = phase === 'cut'
  const trouble = cut || phase === 'waiting' || phase === 'failed' || !ledger.whole || ledger.gaps > 0 || ledger.absence !== undefined
  const open = chosen ?? trouble
  return (
    <section class={`strip phase-${phase}`} aria-label="Connection">
      <div class="strip-line">
        <span class="phase" role="status">
          <span class="dot" aria-hidden="true" />
          {words[phase]}
          {phase === 'waiting' && <Countdown follower={follower} />}
          {follower.sharedWith > 0 && <span class="soft"> · shared with {plural(follower.sharedWith, 'other tab')}</span>}
        </span>
        <button type="button" class={`quiet proof${ledger.whole ? '' : ' is-broken'}`} aria-expanded={open} title="How the events came" onClick={() => setChosen(!open)}>
          {proofOf(ledger)}
        </button>
        {phase === 'waiting' && (
          <button type="button" onClick={() => follower.resume()}>
            Try now
          </button>
        )}
        {!over && (
          <button
            type="button"
            role="switch"
            aria-checked={!cut}
            aria-label="Connection of this page"
            class="cut"
            onClick={() => (cut ? follower.resume() : follower.cut())}
          >
            {cut ? 'Resume' : 'Cut the connection'}
          </button>
        )}
      </div>
      <div class="strip-more" hidden={!open}>
        <div class="strip-line">
          <Ribbon ledger={ledger} away={cut || phase === 'waiting'} />
          {!over && (
            <label class="check strip-again" title="Cut and resume every one and a half seconds">
              <input type="checkbox" checked={again} onChange={(event) => setAgain(event.currentTarget.checked)} />
              again and again
            </label>
          )}
        </div>
        <Counts ledger={ledger} phase={phase} />
      </div>
    </section>
  )
}

/** What the counts prove, in a few words. */
function proofOf({ first, whole, holes, missed }: Ledger): string {
  if (first === 0) return 'no event yet'
  if (!whole) return `${plural(holes, 'event')} missing`
  return missed > 0 ? `${plural(missed, 'earlier event')} gone` : 'each event once'
}

function Countdown({ follower }: { follower: Follower }) {
  useTick(250)
  const seconds = Math.max(0, Math.ceil((follower.nextTry - Date.now()) / 1000))
  return <span class="soft"> · next try {seconds > 0 ? `in ${seconds} s` : 'now'}</span>
}

const explained: Record<Part['kind'], string> = {
  live: 'came as it happened',
  replayed: 'replayed from the store',
  gap: 'no longer kept when they were asked for',
}

/** All events by their seq, coloured by how they came. */
function Ribbon({ ledger, away }: { ledger: Ledger; away: boolean }) {
  const parts = ledger.parts.map((part) => ({ ...part, name: part.kind as string, title: explained[part.kind] }))
  const tail = ledger.absence?.tail ?? 0
  if (tail > ledger.last) {
    const title = away ? 'happened while the page is away' : 'still to be replayed'
    parts.push({ kind: 'gap', name: 'missing', from: ledger.last + 1, to: tail, title })
  }
  const total = Math.max(1, ledger.last, tail)
  const summary = parts.map(({ name, from, to }) => `${name} ${from} to ${to}`).slice(-12)
  return (
    <div class="ribbon" role="img" aria-label={`Events by seq: ${summary.join(', ') || 'none yet'}`}>
      {parts.map(({ name, from, to, title }) => (
        <span
          key={from}
          class={`part part-${name}`}
          title={`seq ${count(from)} to ${count(to)}: ${title}`}
          style={{ flexGrow: Math.max(to - from + 1, total / 400), flexBasis: 0 }}
        />
      ))}
    </div>
  )
}

function Counts({ ledger, phase }: { ledger: Ledger; phase: Phase }) {
  const { absence } = ledger
  const missed = absence ? Math.max(0, absence.tail - absence.after) : 0
  return (
    <dl class="counts">
      <Count name="received" value={ledger.received} />
      <Count name="live" value={ledger.live} mark="live" />
      <Count name="replayed" value={ledger.replayed} mark="replayed" />
      <Count name="missed while away" value={missed} mark="missing" note={absence && missed > 0 ? caughtUp(absence.replayed, missed, absence.gone) : ''} />
      <Count name="gaps" value={ledger.gaps} mark="gap" note={ledger.missed > 0 ? `${plural(ledger.missed, 'event')} not kept` : ''} />
      <Count name="duplicates" value={ledger.duplicates} />
      <Count name="connections" value={ledger.connections} />
      <Verdict ledger={ledger} phase={phase} />
    </dl>
  )
}

function caughtUp(replayed: number, missed: number, gone: number): string {
  if (replayed + gone < missed) return `${count(replayed)} back`
  return gone === 0 ? 'all back' : `${count(replayed)} back, ${count(gone)} not kept`
}

function Count({ name, value, mark, note }: { name: string; value: number; mark?: string; note?: string }) {
  return (
    <div class={value === 0 ? 'count is-zero' : 'count'} data-count={name}>
      <dt>
        {mark && <span class={`swatch part-${mark}`} aria-hidden="true" />}
        {name}
      </dt>
      <dd>
        {count(value)}
        {note && <span class="soft"> · {note}</span>}
      </dd>
    </div>
  )
}

/** What the counts prove. */
function Verdict({ ledger, phase }: { ledger: Ledger; phase: Phase }) {
  const { first, last } = ledger
  if (first === 0) return null
  const range = `seq ${count(first)} to ${count(last)}`
  let text = `${range}: each event once`
  if (!ledger.whole) text = `${range}: ${plural(ledger.holes, 'event')} missing without a gap`
  else if (ledger.missed > 0) text = `${range}: each event once, but for the ${count(ledger.missed)} that were told gone`
  return (
    <div class={ledger.whole ? 'verdict' : 'verdict is-broken'} data-count="verdict">
      <dt class="hidden">proof</dt>
      <dd>
        <span aria-hidden="true">{ledger.whole ? '✓ ' : '✗ '}</span>
        {text}
        {phase === 'ended' && ', to the end'}
      </dd>
    </div>
  )
}
