import { useEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks'
import { download } from './api'
import { bytes, copyText, count, plural, stateOf } from './format'
import { useAction, useChanges } from './hooks'
import { ProblemBox } from './parts'
import { hrefs } from './route'
import { Search } from './term/search'
import { View } from './term/view'
import { Timeline } from './timeline'
import type { Watch } from './watch'
import type { Execution } from './wire'

/** Lines that a copy of everything holds at most. */
const maxCopied = 200_000

/** The output of a run as a terminal would show it. */
export function Output({ watch, execution, query }: { watch: Watch; execution: Execution; query: URLSearchParams }) {
  const { id } = execution
  const box = useRef<HTMLDivElement>(null)
  const view = useRef<View | undefined>(undefined)
  const [following, setFollowing] = useState(true)
  const [picked, setPicked] = useState<[number, number]>([-1, -1])
  const search = useMemo(() => new Search(watch.screen), [watch])
  const target = useTarget(watch, query, (from, to) => {
    setPicked([from, to])
    setFollowing(false)
    view.current?.show(from)
  })
  useEffect(() => {
    const { screen } = watch
    const drawn = new View(box.current!, screen, {
      onFollow: setFollowing,
      href: (line) => hrefOf(watch, id, line, line),
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
      <Toolbar watch={watch} id={id} picked={picked} search={search} view={view} following={following} onFollow={follow} />
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

interface ToolbarProps {
  watch: Watch
  id: string
  picked: [number, number]
  search: Search
  view: { current: View | undefined }
  following: boolean
  onFollow(on: boolean): void
}

function Toolbar({ watch, id, picked, search, view, following, onFollow }: ToolbarProps) {
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
  const save = useAction((channel: 'stdout' | 'stderr') => download(id, channel))
  return (
    <div class="bar toolbar">
      <SearchBox watch={watch} search={search} view={view} onFound={() => onFollow(false)} />
      <span class="soft" role="status">
        {copied}
      </span>
      <span class="grow" />
      <label class="check">
        <input type="checkbox" checked={following} onChange={(event) => onFollow(event.currentTarget.checked)} />
        Follow
      </label>
      <button type="button" onClick={() => void copy()}>
        {picked[0] >= 0 ? `Copy ${plural(picked[1] - picked[0] + 1, 'line')}` : 'Copy'}
      </button>
      {(['stdout', 'stderr'] as const).map((channel) => (
        <button key={channel} type="button" title={`Download ${channel}`} onClick={() => void save.run(channel)}>
          {channel}
        </button>
      ))}
      <ProblemBox problem={save.problem} onClose={save.clear} />
    </div>
  )
}

interface SearchProps {
  watch: Watch
  search: Search
  view: { current: View | undefined }
  onFound(): void
}

function SearchBox({ watch, search, view, onFound }: SearchProps) {
  const [text, setText] = useState('')
  const [, redraw] = useReducer((n: number) => n + 1, 0)
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => {
    search.begin(text)
    if (view.current) view.current.query = search.query
    view.current?.request()
    let frame = 0
    let timer: ReturnType<typeof setTimeout> | undefined
    const advance = () => {
      frame = 0
      if (!search.advance()) frame = requestAnimationFrame(advance)
      timer ??= setTimeout(() => {
        timer = undefined
        redraw(0)
      }, 100)
    }
    const changed = () => {
      if (text !== '') frame ||= requestAnimationFrame(advance)
    }
    changed()
    const stop = watch.subscribe(changed)
    return () => {
      stop()
      cancelAnimationFrame(frame)
      clearTimeout(timer)
    }
  }, [text, search, watch])
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const typing = /^(INPUT|TEXTAREA|SELECT)$/.test((event.target as HTMLElement).tagName)
      if (event.key !== '/' || typing || event.ctrlKey || event.metaKey) return
      event.preventDefault()
      field.current?.focus()
    }
    addEventListener('keydown', pressed)
    return () => removeEventListener('keydown', pressed)
  }, [])
  const step = (by: 1 | -1) => {
    const line = search.step(by)
    if (line < 0) return
    onFound()
    view.current?.show(line)
    redraw(0)
  }
  const found = search.matches.length
  return (
    <span class="search">
      <input
        ref={field}
        type="search"
        placeholder="Search output"
        aria-label="Search output"
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'Enter') step(event.shiftKey ? -1 : 1)
        }}
      />
      {text !== '' && (
        <>
          <span class="soft" role="status">
            {found === 0 ? 'no line' : `${search.at >= 0 ? `${count(search.at + 1)} of ` : ''}${plural(found, 'line')}`}
          </span>
          <button type="button" class="quiet" aria-label="Previous match" onClick={() => step(-1)}>
            ↑
          </button>
          <button type="button" class="quiet" aria-label="Next match" onClick={() => step(1)}>
            ↓
          </button>
        </>
      )}
    </span>
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
