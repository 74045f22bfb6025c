import { useEffect, useState } from 'preact/hooks'

/** A page and the names in its address, all of it behind the "#". */
export interface Route {
  page:
    | 'executions'
    | 'execution'
    | 'start'
    | 'streams'
    | 'stream'
    | 'sessions'
    | 'schedules'
    | 'schedule'
    | 'webhooks'
    | 'webhook'
    | 'mcp'
    | 'mcp-session'
    | 'tasks'
    | 'replicas'
    | 'server'
    | 'none'
  name: string
  query: URLSearchParams
}

export const hrefs = {
  executions: (query?: Record<string, string>) => `#/executions${query ? `?${new URLSearchParams(query)}` : ''}`,
  execution: (id: string, query?: Record<string, string>) =>
    `#/executions/${encodeURIComponent(id)}${query ? `?${new URLSearchParams(query)}` : ''}`,
  start: (again?: string) => (again ? `#/start?${new URLSearchParams({ again })}` : '#/start'),
  streams: '#/streams',
  stream: (name: string) => `#/streams/${encodeURIComponent(name)}`,
  sessions: '#/sessions',
  schedules: '#/schedules',
  schedule: (id: string) => `#/schedules/${encodeURIComponent(id)}`,
  webhooks: '#/webhooks',
  webhook: (id: string) => `#/webhooks/${encodeURIComponent(id)}`,
  mcp: '#/mcp',
  mcpSession: (id: string) => `#/mcp/${encodeURIComponent(id)}`,
  tasks: '#/tasks',
  replicas: '#/replicas',
  server: '#/server',
}

export function parseRoute(hash: string): Route {
  const [path = '', search = ''] = hash.replace(/^#\/?/, '').split('?')
  const query = new URLSearchParams(search)
  const [kind = '', ...rest] = path.split('/')
  let name = rest.join('/')
  try {
    name = decodeURIComponent(name)
  } catch {
    // A "%" that somebody has typed stands for itself.
  }
  if (kind === '' || (kind === 'executions' && name === '')) return { page: 'executions', name, query }
  if (kind === 'executions') return { page: 'execution', name, query }
  if (kind === 'streams') return { page: name === '' ? 'streams' : 'stream', name, query }
  if (kind === 'schedules') return { page: name === '' ? 'schedules' : 'schedule', name, query }
  if (kind === 'webhooks') return { page: name === '' ? 'webhooks' : 'webhook', name, query }
  if (kind === 'mcp') return { page: name === '' ? 'mcp' : 'mcp-session', name, query }
  if (kind === 'start' || kind === 'sessions' || kind === 'tasks' || kind === 'replicas' || kind === 'server') return { page: kind, name, query }
  return { page: 'none', name: path, query }
}

/** The route that the address names; the component is drawn again when that changes. */
export function useRoute(): Route {
  const [hash, setHash] = useState(location.hash)
  useEffect(() => {
    const changed = () => setHash(location.hash)
    addEventListener('hashchange', changed)
    changed() // an effect runs after the first drawing, and the address may have changed between them
    return () => removeEventListener('hashchange', changed)
  }, [])
  return parseRoute(hash)
}
