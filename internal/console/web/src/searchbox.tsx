import { useEffect, useMemo, useReducer, useRef, useState } from 'preact/hooks'
import { count, plural } from './format'
import type { Search } from './lines/search'
import type { View } from './lines/view'
import type { Watch } from './watch'

interface SearchProps {
  watch: Watch
  search: Search
  view: { current: View | undefined }
  onFound(): void
}

/** A field that searches the output. "/" puts the caret into it from anywhere else. */
export function SearchBox({ watch, search, view, onFound }: SearchProps) {
  const [text, setText] = useState('')
  const [regular, setRegular] = useState(false)
  const [, redraw] = useReducer((n: number) => n + 1, 0)
  const query = useMemo(() => (regular ? expressionOf(text) : text), [text, regular])
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => {
    search.begin(query ?? '')
    const show = () => {
      if (!view.current) return
      view.current.query = search.query
      view.current.found = search.matches
      view.current.request()
    }
    show()
    let frame = 0
    let timer: ReturnType<typeof setTimeout> | undefined
    const advance = () => {
      frame = 0
      if (!search.advance()) frame = requestAnimationFrame(advance)
      show()
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
  }, [query, search, watch])
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
      <button type="button" class="quiet mono" aria-label="Regular expression" aria-pressed={regular} onClick={() => setRegular(!regular)}>
        .*
      </button>
      {text !== '' && (
        <>
          <span class="soft" role="status">
            {query === undefined ? 'not an expression' : found === 0 ? 'no line' : `${search.at >= 0 ? `${count(search.at + 1)} of ` : ''}${plural(found, 'line')}`}
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

/** The expression that a text is, without regard to case; undefined for none. */
function expressionOf(text: string): RegExp | '' | undefined {
  try {
    return text === '' ? '' : new RegExp(text, 'gi')
  } catch {
    return undefined
  }
}
