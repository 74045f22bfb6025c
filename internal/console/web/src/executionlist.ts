import { get } from './api'
import { commandOf, stateOf } from './format'
import type { Execution, Status } from './wire'

/** Which executions a list shows. */
export type Filter = 'all' | 'running' | 'queued' | 'succeeded' | 'failed'

interface Page {
  executions: Execution[]
  next_cursor: string
}

const pageSize = 200
/** Searching stops to load older pages at that many executions. */
const searchLimit = 10_000

/** The executions of one session or of all, newest first: a part that grows as it is scrolled or searched. */
export class ExecutionList {
  all: Execution[] = []
  /** There are older ones that were not loaded. */
  more = true
  loading = false

  private readonly byID = new Map<string, Execution>()
  private next = ''

  constructor(
    private readonly filter: Filter,
    private readonly session: string,
  ) {}

  /** Brings the newest ones and those that run up to date. */
  async refresh(signal: AbortSignal): Promise<void> {
    const page = await this.load({ limit: pageSize }, signal)
    // Where more have begun since the last look than a page holds, there is a hole: begin anew.
    if (page.next_cursor !== '' && !page.executions.some(({ id }) => this.byID.has(id))) this.byID.clear()
    if (this.byID.size === 0) {
      this.next = page.next_cursor
      this.more = this.next !== ''
    }
    const listed = new Set(page.executions.map(({ id }) => id))
    const oldest = page.next_cursor === '' ? '' : page.executions.at(-1)!.created
    const stale: Execution[] = []
    for (const e of this.all) {
      if (listed.has(e.id)) continue
      if (e.created > oldest) this.byID.delete(e.id) // it was removed, or is in another state than the filter wants
      else if (e.status !== 'ended') stale.push(e)
    }
    this.merge(page.executions)
    if (stale.length > 0) await this.update(stale, signal)
  }

  /** Loads an older page. */
  async older(signal: AbortSignal): Promise<void> {
    if (!this.more || this.loading) return
    this.loading = true
    try {
      const page = await this.load({ limit: 500, cursor: this.next }, signal)
      this.next = page.next_cursor
      this.more = this.next !== ''
      this.merge(page.executions)
    } finally {
      this.loading = false
    }
  }

  /** Those that match what was typed, and whether older ones should be loaded to find more. */
  matching(text: string): { rows: Execution[]; wanting: boolean } {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean)
    const rows = this.all.filter((e) => this.passes(e) && words.every((word) => textOf(e).includes(word)))
    const filtered = words.length > 0 || this.filter === 'succeeded' || this.filter === 'failed'
    return { rows, wanting: filtered && rows.length < 100 && this.more && this.all.length < searchLimit }
  }

  private passes(e: Execution): boolean {
    if (this.filter === 'running' || this.filter === 'queued') return e.status === this.filter
    if (this.filter === 'all') return true
    const good = e.outcome === 'exited' && e.exit_code === 0
    return e.status === 'ended' && (this.filter === 'succeeded' ? good : !good)
  }

  private load(query: { limit: number; cursor?: string }, signal: AbortSignal): Promise<Page> {
    const parameters = new URLSearchParams({ limit: String(query.limit) })
    if (query.cursor) parameters.set('cursor', query.cursor)
    if (this.session) parameters.set('session', this.session)
    const status: Status | undefined =
      this.filter === 'running' || this.filter === 'queued' ? this.filter : this.filter === 'all' ? undefined : 'ended'
    if (status) parameters.set('status', status)
    return get<Page>(`/v1/executions?${parameters}`, signal)
  }

  /** Asks again for those that have gone on behind the first page: a few at a time. */
  private async update(stale: Execution[], signal: AbortSignal): Promise<void> {
    const asked = stale.slice(0, 20).map(async (e) => {
      try {
        return await get<Execution>(`/v1/executions/${encodeURIComponent(e.id)}`, signal)
      } catch {
        this.byID.delete(e.id) // it was removed; or the next refresh tells what is wrong
        return undefined
      }
    })
    this.merge((await Promise.all(asked)).filter((e) => e !== undefined))
  }

  private merge(list: Execution[]): void {
    for (const e of list) this.byID.set(e.id, e)
    this.sort()
  }

  private sort(): void {
    this.all = [...this.byID.values()].sort((a, b) => (a.created < b.created ? 1 : a.created > b.created ? -1 : a.id < b.id ? 1 : -1))
  }
}

const texts = new WeakMap<Execution, string>()

function textOf(e: Execution): string {
  let text = texts.get(e)
  if (text === undefined) {
    const labels = Object.entries(e.labels ?? {}).map(([key, value]) => `${key}=${value}`)
    text = [commandOf(e), e.id, e.session ?? '', e.cwd, stateOf(e).words, ...labels].join('\n').toLowerCase()
    texts.set(e, text)
  }
  return text
}
