// Small parts of pages.

import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import type { Problem } from './api'
import { ago, moment, stateOf } from './format'
import type { Execution } from './wire'

/** What to do about a problem, where a person can do something. */
const advice: Record<string, string> = {
  unreachable: 'The page tries again by itself.',
  store_unavailable: 'The server cannot reach its store. It tries again; so does this page.',
  shutting_down: 'The server is going away. The page comes back when it does.',
  not_found: 'It was never there, was removed, or belongs to somebody else.',
  stream_expired: 'It has ended some time ago, and what it kept was swept away.',
  stream_ended: 'Nothing can be written to it any more.',
  rate_limited: 'Wait a little before the next attempt.',
  quota_exceeded: 'There is no room for more. Remove what is no longer needed, or raise the bounds of the server.',
  forbidden: 'Your login may not do this. Ask whoever runs the server.',
}

export function ProblemBox({ problem, onClose }: { problem: Problem | undefined; onClose?: () => void }) {
  if (!problem) return null
  return (
    <div class="problem" role="alert">
      <div>
        <strong>{problem.title || 'Something went wrong'}</strong>
        {problem.detail && <p>{problem.detail}</p>}
        {advice[problem.code] && <p>{advice[problem.code]}</p>}
        <p class="problem-code">
          {problem.code}
          {problem.field && ` · ${problem.field}`}
          {problem.status > 0 && ` · ${problem.status}`}
        </p>
      </div>
      {onClose && (
        <button type="button" class="quiet" aria-label="Dismiss" onClick={onClose}>
          ✕
        </button>
      )}
    </div>
  )
}

/** Puts the caret into a field when it appears, as its ref. */
export const caret = (field: HTMLElement | null) => field?.focus()

/** A field that searches a list. "/" puts the caret into it from anywhere else. */
export function SearchField(props: { label: string; placeholder: string; text: string; onText: (text: string) => void }) {
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement
      if (event.key !== '/' || event.ctrlKey || event.metaKey || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName)) return
      event.preventDefault()
      field.current?.focus()
    }
    addEventListener('keydown', pressed)
    return () => removeEventListener('keydown', pressed)
  }, [])
  return (
    <input
      ref={field}
      type="search"
      class="grow"
      placeholder={props.placeholder}
      aria-label={props.label}
      value={props.text}
      onInput={(event) => props.onText(event.currentTarget.value)}
    />
  )
}

/** A button that asks whether one is sure before it acts. */
export function Sure(props: { words: string; question: string; yes: string; busy: boolean; onYes: () => void }) {
  const [asked, setAsked] = useState(false)
  if (!asked) {
    return (
      <button type="button" disabled={props.busy} onClick={() => setAsked(true)}>
        {props.words}
      </button>
    )
  }
  return (
    <>
      <span role="status">{props.question}</span>
      <button type="button" class="danger" disabled={props.busy} onClick={props.onYes}>
        {props.yes}
      </button>
      <button type="button" ref={caret} onClick={() => setAsked(false)}>
        Keep
      </button>
    </>
  )
}

/** A row of facts, which is left out where there is nothing to tell. */
export function Row({ name, children }: { name: string; children?: ComponentChildren }) {
  const shown = Array.isArray(children) ? children.some(Boolean) : children !== undefined && children !== null && children !== false && children !== ''
  if (!shown) return null
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}

/** A field of a form with its name. */
export function Field(props: { name: string; label: string; placeholder: string; mono?: boolean; required?: boolean; value?: string | undefined }) {
  return (
    <label class="field">
      <span>{props.label}</span>
      <input
        name={props.name}
        class={props.mono ? 'mono' : ''}
        placeholder={props.placeholder}
        required={props.required === true}
        defaultValue={props.value ?? ''}
        autocomplete="off"
        spellcheck={false}
      />
    </label>
  )
}

export function Choice(props: { name: string; label: string; of: [string, string][] }) {
  return (
    <label class="field">
      <span>{props.label}</span>
      <select name={props.name}>
        {props.of.map(([value, words]) => (
          <option key={value} value={value}>
            {words}
          </option>
        ))}
      </select>
    </label>
  )
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  )
}

export function State({ execution }: { execution: Execution }) {
  const { tone, words } = stateOf(execution)
  return (
    <span class={`state tone-${tone}`}>
      <span class="dot" aria-hidden="true" />
      {words}
    </span>
  )
}

export function Labels({ labels }: { labels: Record<string, string> | null }) {
  return (
    <>
      {Object.entries(labels ?? {}).map(([key, value]) => (
        <span class="label" key={key}>
          {key}
          <b>{value}</b>
        </span>
      ))}
    </>
  )
}

export function When({ time }: { time: string | null }) {
  if (!time) return <span class="soft">–</span>
  return (
    <time dateTime={time} title={moment(time)}>
      {ago(time)}
    </time>
  )
}

/** Rows of which those that can be seen are drawn. They all have the same height. */
export function VirtualRows<T>(props: {
  rows: T[]
  height: number
  label: string
  draw: (row: T, index: number) => ComponentChildren
  keyOf: (row: T, index: number) => string | number
  stickToEnd?: boolean
  onNearEnd?: () => void
}) {
  const { rows, height, onNearEnd, stickToEnd } = props
  const box = useRef<HTMLDivElement>(null)
  const stuck = useRef(true)
  const [view, setView] = useState({ top: 0, height: 800 })
  useEffect(() => {
    const element = box.current!
    const look = () => {
      stuck.current = element.scrollTop + element.clientHeight >= element.scrollHeight - height * 2
      setView({ top: element.scrollTop, height: element.clientHeight })
    }
    const resized = new ResizeObserver(look)
    element.addEventListener('scroll', look, { passive: true })
    resized.observe(element)
    return () => {
      element.removeEventListener('scroll', look)
      resized.disconnect()
    }
  }, [height])
  useEffect(() => {
    if (stickToEnd && stuck.current && box.current) box.current.scrollTop = box.current.scrollHeight
  }, [rows.length, stickToEnd])
  const first = Math.max(0, Math.floor(view.top / height) - 5)
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / height) + 5)
  useEffect(() => {
    if (last >= rows.length - 20) onNearEnd?.()
  }, [last, rows.length])
  return (
    <div class="rows" ref={box} role="rowgroup" tabIndex={0} aria-label={props.label}>
      <div class="rows-space" role="presentation" style={{ height: `${rows.length * height}px` }}>
        <div role="presentation" style={{ transform: `translateY(${first * height}px)` }}>
          {rows.slice(first, last).map((row, i) => (
            <div role="row" class="row" aria-rowindex={first + i + 2} key={props.keyOf(row, first + i)}>
              {props.draw(row, first + i)}
            </div>
          ))}
        </div>
      </div>
    </div>
  )
}

/** A heading for the columns of VirtualRows. */
export function Heading({ names }: { names: string[] }) {
  return (
    <div role="rowgroup">
      <div role="row" class="row row-heading">
        {names.map((name) => (
          <span role="columnheader" key={name}>
            {name}
          </span>
        ))}
      </div>
    </div>
  )
}
