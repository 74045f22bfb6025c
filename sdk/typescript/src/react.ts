import { useEffect, useState } from 'react'
import type { FollowOptions } from './follow.js'

/** The state of a stream: `reconnecting` after a lost connection, `ended` after its end event, `failed` after an error. */
export type StreamStatus = 'connecting' | 'connected' | 'reconnecting' | 'ended' | 'failed'

/** The state of a stream for a component. */
export interface StreamView<Value> {
  value: Value
  status: StreamStatus
  /** The error of a failed stream. */
  error: unknown
}

/** Options to pass to the loop: the hook ends it with the signal. */
export type LoopOptions = Required<Pick<FollowOptions, 'signal' | 'onDrop' | 'onConnected'>>

/** How events are reduced to a value. */
export interface Reduction<E, Value> {
  initial: Value
  reduce: (value: Value, event: E) => Value
}

/** The minimum time between two renderings. */
const frame = 16

/**
 * Follows a stream as long as the component is there, and again from its beginning when dependencies change. It renders once
 * for all events that come within 16 ms.
 *
 *     const { value: events, status } = useStream((options) => reprise.follow(id, options), [id])
 *
 * The value is an array of all events, or what a reduction makes of them:
 *
 *     useStream((options) => reprise.follow(id, options), [id], { initial: '', reduce: (text, event) => text + event.text })
 */
export function useStream<E>(make: (options: LoopOptions) => AsyncIterable<E>, dependencies: readonly unknown[]): StreamView<E[]>
export function useStream<E, Value>(
  make: (options: LoopOptions) => AsyncIterable<E>,
  dependencies: readonly unknown[],
  reduction: Reduction<E, Value>,
): StreamView<Value>
export function useStream<E>(
  make: (options: LoopOptions) => AsyncIterable<E>,
  dependencies: readonly unknown[],
  reduction?: Reduction<E, unknown>,
): StreamView<unknown> {
  const [view, setView] = useState<StreamView<unknown>>(firstView(reduction))
  useEffect(() => {
    const stop = new AbortController()
    setView(firstView(reduction))
    void show(make, reduction, stop.signal, setView)
    return () => stop.abort()
  }, dependencies)
  return view
}

function firstView<E>(reduction: Reduction<E, unknown> | undefined): StreamView<unknown> {
  return { value: reduction ? reduction.initial : [], status: 'connecting', error: undefined }
}

/** Follows a stream for a component until it ends, fails, or signal is aborted. */
async function show<E>(
  make: (options: LoopOptions) => AsyncIterable<E>,
  reduction: Reduction<E, unknown> | undefined,
  signal: AbortSignal,
  setView: (view: StreamView<unknown>) => void,
): Promise<void> {
  let { value, status, error } = firstView(reduction)
  let news: E[] = []
  let timer: ReturnType<typeof setTimeout> | undefined
  const render = () => {
    clearTimeout(timer)
    timer = undefined
    if (signal.aborted) return
    if (!reduction) value = [...(value as E[]), ...news]
    news = []
    setView({ value, status, error })
  }
  const renderSoon = () => (timer ??= setTimeout(render, frame))
  const onDrop = () => {
    status = 'reconnecting'
    renderSoon()
  }
  const onConnected = () => {
    status = 'connected'
    renderSoon()
  }
  try {
    for await (const event of make({ signal, onDrop, onConnected })) {
      if (reduction) value = reduction.reduce(value, event)
      else news.push(event)
      renderSoon()
    }
    status = 'ended'
  } catch (reason) {
    status = 'failed'
    error = reason
  }
  render()
}
