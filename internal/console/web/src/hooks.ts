import { useEffect, useReducer, useRef, useState } from 'preact/hooks'
import { Problem, problemOf } from './api'

/** Draws the component again, at most once in so many milliseconds, when something that it subscribes to changes. */
export function useChanges(subscribe: (changed: () => void) => () => void, every: number, inputs: unknown[]): void {
  const [, redraw] = useReducer((n: number) => n + 1, 0)
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const stop = subscribe(() => {
      timer ??= setTimeout(() => {
        timer = undefined
        redraw(0)
      }, every)
    })
    redraw(0)
    return () => {
      stop()
      clearTimeout(timer)
    }
  }, inputs)
}

/** Draws the component again each so many milliseconds while wanted. */
export function useTick(every: number, wanted = true): void {
  const [, redraw] = useReducer((n: number) => n + 1, 0)
  useEffect(() => {
    if (!wanted) return
    const timer = setInterval(() => redraw(0), every)
    return () => clearInterval(timer)
  }, [every, wanted])
}

/** What a call answered last, and what is wrong with the newest one. */
export interface Polled<T> {
  value: T | undefined
  problem: Problem | undefined
  again(): void
}

/** Calls load now and each so many milliseconds while the tab is seen; after a failure too. */
export function usePolled<T>(load: (signal: AbortSignal) => Promise<T>, every: number, inputs: unknown[]): Polled<T> {
  const [state, setState] = useState<{ value: T | undefined; problem: Problem | undefined }>({ value: undefined, problem: undefined })
  const again = useRef(() => {})
  useEffect(() => {
    const stop = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    let busy = false
    const look = async () => {
      clearTimeout(timer)
      if (busy || stop.signal.aborted) return
      busy = true
      try {
        const value = await load(stop.signal)
        if (!stop.signal.aborted) setState({ value, problem: undefined })
      } catch (error) {
        if (!stop.signal.aborted) setState((old) => ({ value: old.value, problem: problemOf(error) }))
      }
      busy = false
      if (!stop.signal.aborted && !document.hidden) timer = setTimeout(look, every)
    }
    const seen = () => void (document.hidden || look())
    again.current = () => void look()
    document.addEventListener('visibilitychange', seen)
    setState({ value: undefined, problem: undefined })
    void look()
    return () => {
      stop.abort()
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', seen)
    }
  }, inputs)
  return { ...state, again: () => again.current() }
}

/** An action that a person starts: whether it is under way, and what went wrong. */
export function useAction<A extends unknown[]>(act: (...args: A) => Promise<void>) {
  const [busy, setBusy] = useState(false)
  const [problem, setProblem] = useState<Problem | undefined>()
  const run = async (...args: A) => {
    setBusy(true)
    setProblem(undefined)
    try {
      await act(...args)
    } catch (error) {
      setProblem(problemOf(error))
    }
    setBusy(false)
  }
  return { run, busy, problem, clear: () => setProblem(undefined) }
}

/** Reports whether a media query matches. */
export function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches)
  useEffect(() => {
    const list = matchMedia(query)
    const changed = () => setMatches(list.matches)
    list.addEventListener('change', changed)
    changed() // it may have changed since the first drawing
    return () => list.removeEventListener('change', changed)
  }, [query])
  return matches
}

/** The title of the tab. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title === '' ? 'Reprise' : `${title} · Reprise`
  }, [title])
}
