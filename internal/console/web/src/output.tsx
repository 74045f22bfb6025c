import { useEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks'
import { download, downloadBoth } from './api'
import { bytes, copyText, count, plural, stampOf, stateOf } from './format'
import { useAction, useChanges } from './hooks'
import { ProblemBox } from './parts'
import { hrefs } from './route'
import { SearchBox } from './searchbox'
import { Folds } from './lines/folds'
import { Search } from './lines/search'
import { View } from './lines/view'
import { Timeline } from './timeline'
import type { Watch } from './watch'
import type { Execution } from './wire'

/** Lines that a copy of everything holds at most. */
const maxCopied = 200_000

type Stamps = 'off' | 'relative' | 'absolute'

/** How lines are shown, which the browser remembers. */
interface Form {
  stamps: Stamps
  wrap: boolean
}

const formKey = 'reprise output'

function savedForm(): Form {
  try {
    return { stamps: 'off', wrap: false, ...(JSON.parse(localStorage.getItem(formKey) ?? '{}') as Partial<Form>) }
  } catch {
    return { stamps: 'off', wrap: false } // a browser may forbid it
  }
}

/** The output of a run as a terminal would show it. */
export function Output({ watch, execution, query }: { watch: Watch; execution: Execution; query: URLSearchParams }) {
  const { id } = execution
  const box = useRef<HTMLDivElement>(null)
  const view = useRef<View | undefined>(undefined)
  const [following, setFollowing] = useState(true)
  const [picked, setPicked] = useState<[number, number]>([-1, -1])
  const [form, setForm] = useState(savedForm)
  const stamps = useRef<Stamps>(form.stamps)
  stamps.current = form.stamps
  const search = useMemo(() => new Search(watch.screen), [watch])
  const target = useTarget(watch, query, (from, to) => {
    setPicked([from, to])
    setFollowing(false)
    view.current?.show(from)
  })
  useEffect(() => {
    const { screen } = watch
    const drawn = new View(box.current!, screen, new Folds(screen), {
      onFollow: setFollowing,
      href: (line) => hrefOf(watch, id, line, line),
      stamp: (line) =>
        stamps.current === 'off' ? '' : stampOf(watch.timeOf(screen.anchorOf(line).seq), stamps.current === 'relative' ? watch.activity.from : undefined),
      onPick: (line, extend) => {
        setPicked(([from]) => {
          const range: [number, number] = extend && from >= 0 ? [Math.min(from, line), Math.max(from, line)] : [line, line]
          target.ignore()
          history.replaceState(null, '', hrefOf(watch, id, ...range))
          return range
        })
      },
    })
    view.current = drawn
    drawn.request()
    const stop = watch.subscribe(() => drawn.request())
    return () => {
      stop()
      drawn.close()
    }
  }, [watch, id])
  useEffect(() => {
    if (!view.current) return
    view.current.picked = picked
    view.current.request()
  }, [picked])
  useEffect(() => {
    view.current?.restyle(form)
    try {
      localStorage.setItem(formKey, JSON.stringify(form))
    } catch {
      // It lasts until the page is left.
    }
  }, [form, watch, id])
  const follow = (on: boolean) => {
    setFollowing(on)
    view.current?.follow(on)
  }
  const jump = (seq: number) => {
    const line = watch.screen.lineAt({ seq, nth: 0 })
    if (line < 0) return
    setPicked([line, line])
    setFollowing(false)
    view.current?.show(line)
  }
  return (
    <div class="output">
      <Toolbar watch={watch} id={id} picked={picked} search={search} view={view} following={following} onFollow={follow} form={form} onForm={setForm} />
      <div class="term" ref={box} tabIndex={0} role="region" aria-label="Output. Scroll with the arrow keys." />
      <Blank watch={watch} execution={execution} />
      <div class="foot">
        <Timeline watch={watch} onSeq={jump} />
        <StatusLine watch={watch} />
      </div>
    </div>
  )
}

/** The address of lines: each by the cursor of the event that it begins in and its number among the lines of that event. */
function hrefOf(watch: Watch, id: string, from: number, to: number): string {
  const text = (line: number) => {
    const { seq, nth } = watch.screen.anchorOf(line)
    return `${seq === 0 ? '0' : watch.cursorOf(seq)}:${nth}`
  }
  return hrefs.execution(id, from === to ? { line: text(from) } : { line: text(from), to: text(to) })
}

/** Shows the line that the address names, as soon as it has come. */
function useTarget(watch: Watch, query: URLSearchParams, show: (from: number, to: number) => void) {
  const from = query.get('line') ?? ''
  const to = query.get('to') ?? from
  const done = useRef('')
  useEffect(() => {
    const look = () => {
      const wanted = `${from} ${to}`
      if (from === '' || done.current === wanted) return
      const [first, last] = [from, to].map((text) => lineOf(watch, text)) as [number, number]
      if (first < 0 || last < 0) return
      done.current = wanted
      show(first, last)
    }
    look()
    return watch.subscribe(look)
  }, [watch, from, to])
  return {
    ignore: () => {
      done.current = `${from} ${to}`
    },
  }
}

function lineOf(watch: Watch, text: string): number {
  const match = /^(\d+)[^:]*:(\d+)$/.exec(text)
  return match ? watch.screen.lineAt({ seq: Number(match[1]), nth: Number(match[2]) }) : -1
}

/** What can be saved: each channel as the command wrote it, or both in their order. */
const saved = ['stdout', 'stderr', 'both'] as const

type Saved = (typeof saved)[number]

interface ToolbarProps {
  watch: Watch
  id: string
  picked: [number, number]
  search: Search
  view: { current: View | undefined }
  following: boolean
  onFollow(on: boolean): void
  form: Form
  onForm(form: Form): void
}

function Toolbar({ watch, id, picked, search, view, following, onFollow, form, onForm }: ToolbarProps) {
  const [copied, setCopied] = useState('')
  const copy = async () => {
    const { texts } = watch.screen
    const [from, to] = picked[0] >= 0 ? [picked[0], picked[1] + 1] : [Math.max(0, texts.length - maxCopied), texts.length]
    const lines = texts.slice(from, to)
    if (lines.at(-1) === '') lines.pop()
    await copyText(`${lines.join('\n')}\n`)
    setCopied(`${plural(lines.length, 'line')} copied`)
    setTimeout(() => setCopied(''), 2000)
  }
  const save = useAction((channel: Saved) => (channel === 'both' ? downloadBoth(id) : download(id, channel)))
  return (
    <div class="bar toolbar">
      <SearchBox watch={watch} search={search} view={view} onFound={() => onFollow(false)} />
      <span class="soft" role="status">
        {copied}
      </span>
      <span class="grow" />
      <FoldButton watch={watch} view={view} />
      <select aria-label="Times" value={form.stamps} onChange={(event) => onForm({ ...form, stamps: event.currentTarget.value as Stamps })}>
        <option value="off">No times</option>
        <option value="relative">Since start</option>
        <option value="absolute">Clock</option>
      </select>
      <label class="check">
        <input type="checkbox" checked={form.wrap} onChange={(event) => onForm({ ...form, wrap: event.currentTarget.checked })} />
        Wrap
      </label>
      <button
        type="button"
        class="quiet"
        aria-label="To the start"
        onClick={() => {
          onFollow(false)
          view.current?.show(0)
        }}
      >
        ⤒
      </button>
      <button type="button" class="quiet" aria-label="To the end" onClick={() => onFollow(true)}>
        ⤓
      </button>
      <label class="check">
        <input type="checkbox" checked={following} onChange={(event) => onFollow(event.currentTarget.checked)} />
        Follow
      </label>
      <button type="button" onClick={() => void copy()}>
        {picked[0] >= 0 ? `Copy ${plural(picked[1] - picked[0] + 1, 'line')}` : 'Copy'}
      </button>
      {saved.map((channel) => (
        <button key={channel} type="button" title={`Download ${channel}`} disabled={save.busy} onClick={() => void save.run(channel)}>
          {channel}
        </button>
      ))}
      <ProblemBox problem={save.problem} onClose={save.clear} />
    </div>
  )
}

/** Folds all groups of lines, or unfolds them, where the output has groups. */
function FoldButton({ watch, view }: Pick<ToolbarProps, 'watch' | 'view'>) {
  const [, redraw] = useReducer((n: number) => n + 1, 0)
  useChanges((changed) => watch.subscribe(changed), 500, [watch])
  const folds = view.current?.folds
  if (!folds?.any) return null
  return (
    <button
      type="button"
      aria-pressed={folds.anyFolded}
      onClick={() => {
        folds.foldAll(!folds.anyFolded)
        view.current?.request()
        redraw(0)
      }}
    >
      Fold groups
    </button>
  )
}

/** What there is to say of a run that has ended and written nothing. */
function Blank({ watch, execution: e }: { watch: Watch; execution: Execution }) {
  useChanges((changed) => watch.subscribe(changed), 250, [watch])
  const { texts } = watch.screen
  if (e.status !== 'ended' || !watch.end || texts.length > 1 || texts[0]) return null
  const { tone, words } = stateOf(e)
  return (
    <p class={`blank tone-${tone}`}>
      {e.error ? `It ${words}: ${e.error}` : `It ${words} and wrote nothing.`}
    </p>
  )
}

function StatusLine({ watch }: { watch: Watch }) {
  useChanges((changed) => watch.subscribe(changed), 250, [watch])
  const { screen, end } = watch
  const sizes = end?.bytes as { stdout: number; stderr: number } | undefined
  const lines = screen.dropped + screen.length - (screen.texts.at(-1) === '' ? 1 : 0)
  return (
    <p class="statusline soft">
      <span data-count="lines">{plural(lines, 'line')}</span>
      {screen.dropped > 0 && <span>the first {count(screen.dropped)} are no longer on this page; the downloads have them</span>}
      {sizes && (
        <span>
          stdout {bytes(sizes.stdout)}, stderr {bytes(sizes.stderr)}
        </span>
      )}
      <span class="grow" />
      <span>lines marked at their left came by stderr · click a number to link to a line, Shift+click for a range</span>
    </p>
  )
}
