import { useRef, useState } from 'preact/hooks'
import { Activity, type Channel } from './activity'
import { clock, plural } from './format'
import { useChanges } from './hooks'
import type { Watch } from './watch'

/** Half of the height of the drawing; stdout grows upwards from there, and stderr downwards. */
const half = 14

/** When which channel wrote. A click, or Enter, shows the first line of that time. */
export function Timeline({ watch, onSeq }: { watch: Watch; onSeq: (seq: number) => void }) {
  const box = useRef<HTMLDivElement>(null)
  const [at, setAt] = useState(-1)
  useChanges((changed) => watch.subscribe(changed), 250, [watch])
  const { activity } = watch
  const { length } = activity
  if (length === 0) return null
  const chosen = Math.min(at, length - 1)
  const go = (i: number, by: 1 | -1 = 1) => {
    const found = activity.next(Math.max(0, Math.min(i, length - 1)), by)
    if (found >= 0) setAt(found)
    return found
  }
  const show = (i: number) => {
    if (i < 0) return
    const { firstStdout, firstStderr } = activity.span(i)
    onSeq(Math.min(firstStdout || Infinity, firstStderr || Infinity))
  }
  const pointed = (event: { clientX: number }) => {
    const { left, width } = box.current!.getBoundingClientRect()
    const i = Math.floor(((event.clientX - left) / width) * length)
    const [later, earlier] = [activity.next(Math.max(0, i), 1), activity.next(Math.min(i, length - 1), -1)]
    if (later < 0 || earlier < 0) return Math.max(later, earlier)
    return later - i < i - earlier ? later : earlier
  }
  const pressed = (event: KeyboardEvent) => {
    const moves: Record<string, () => number> = {
      ArrowRight: () => go(chosen + 1),
      ArrowLeft: () => go(chosen < 0 ? length - 1 : chosen - 1, -1),
      Home: () => go(0),
      End: () => go(length - 1, -1),
      Enter: () => chosen,
    }
    const move = moves[event.key]
    if (!move) return
    event.preventDefault()
    show(move())
  }
  return (
    <div class="timeline">
      <div
        class="timeline-box"
        ref={box}
        role="slider"
        tabIndex={0}
        aria-label="When stdout and stderr were written"
        aria-valuemin={0}
        aria-valuemax={length - 1}
        aria-valuenow={Math.max(0, chosen)}
        aria-valuetext={chosen < 0 ? 'the whole run' : wordsOf(activity, chosen)}
        onKeyDown={pressed}
        onPointerMove={(event) => setAt(pointed(event))}
        onClick={(event) => show(pointed(event))}
      >
        <svg viewBox={`0 0 ${length} ${2 * half}`} preserveAspectRatio="none" aria-hidden="true">
          <path class="timeline-stdout" d={pathOf(activity, 'stdout')} />
          <path class="timeline-stderr" d={pathOf(activity, 'stderr')} />
          {chosen >= 0 && <rect class="timeline-at" x={chosen} y={0} width={1} height={2 * half} />}
        </svg>
      </div>
      <span class="soft" data-timeline>
        {chosen < 0 ? spanOf(activity) : wordsOf(activity, chosen)}
      </span>
    </div>
  )
}

/** When the first and the last of it was written. */
function spanOf({ from, to }: Activity): string {
  const [first, last] = [from, to].map((time) => clock(new Date(time).toISOString()))
  return first === last ? first! : `${first} to ${last}`
}

/** What was written in a span, in words. */
function wordsOf(activity: Activity, i: number): string {
  const { stdout, stderr } = activity.span(i)
  const parts = [stdout > 0 ? `stdout ${plural(stdout, 'character')}` : '', stderr > 0 ? `stderr ${plural(stderr, 'character')}` : '']
  return [clock(new Date(activity.timeOf(i)).toISOString()), ...parts.filter(Boolean)].join(' · ')
}

/** So many bars are beside each other at least, so that one of a few is not half of the drawing. */
const leastBars = 160

/** The bars of a channel as one path, so that a drawing has few elements. Their heights are logarithms. */
function pathOf(activity: Activity, channel: Channel): string {
  const width = Math.min(1, activity.length / leastBars)
  let most = 1
  for (let i = 0; i < activity.length; i++) {
    const { stdout, stderr } = activity.span(i)
    most = Math.max(most, stdout, stderr)
  }
  let path = ''
  for (let i = 0; i < activity.length; i++) {
    const amount = activity.span(i)[channel]
    if (amount === 0) continue
    const height = 2 + ((half - 2) * Math.log1p(amount)) / Math.log1p(most)
    path += channel === 'stdout' ? `M${i} ${half}v${-height.toFixed(1)}h${width}V${half}z` : `M${i} ${half}v${height.toFixed(1)}h${width}V${half}z`
  }
  return path
}
