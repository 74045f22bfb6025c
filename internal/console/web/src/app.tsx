import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { type Problem, call, get, problemOf, watchLogin } from './api'
import { ExecutionPage } from './execution'
import { ExecutionsPage } from './executions'
import { useAction, usePolled } from './hooks'
import { theLogin } from './login'
import { LoginPage, Mark, OfferPage } from './loginpage'
import { type Scope, Scopes } from './may'
import { MCPPage } from './mcp'
import { MCPSessionPage } from './mcpcalls'
import { Empty, ProblemBox } from './parts'
import { finish, type takeAnswer } from './provider'
import { ReplicasPage } from './replicas'
import { type Route, hrefs, useRoute } from './route'
import { SchedulePage, SchedulesPage } from './schedules'
import { ServerPage } from './server'
import { SessionsPage } from './sessions'
import { StartPage } from './start'
import { StreamPage, StreamsPage } from './streams'
import { TasksPage } from './tasks'
import { type Theme, chooseTheme, chosenTheme } from './theme'
import { WebhookPage, WebhooksPage } from './webhooks'

type State = 'unknown' | 'in' | 'out'

/**
 * The console. token, if not empty, came with the address: the person is asked whether to log in by it. answer is that an
 * identity provider has given to this tab.
 */
export function App({ token, answer: told }: { token: string; answer: ReturnType<typeof takeAnswer> }) {
  const [login, setLogin] = useState<State>('unknown')
  const [problem, setProblem] = useState<Problem>()
  const [offered, setOffered] = useState(token)
  const [refused, setRefused] = useState<Problem>()
  const [failed, setFailed] = useState<Problem>()
  const [ended, setEnded] = useState<Problem>()
  const out = (why?: Problem) => {
    setEnded(theLogin.secret === '' ? undefined : why)
    theLogin.end()
    setLogin('out')
  }
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    let newest = 0
    const look = async () => {
      const mine = ++newest
      clearTimeout(timer)
      let told: Problem | undefined
      await get('/v1/server').catch((error: unknown) => (told = problemOf(error)))
      if (mine !== newest) return // another tab has given its login meanwhile
      setProblem(told)
      if (!told) setLogin('in')
      else if (told.retryable) timer = setTimeout(() => void look(), 1500)
    }
    const begin = async () => {
      if (told) await finish(told).catch((error: unknown) => setFailed(problemOf(error)))
      await look()
    }
    watchLogin(out)
    theLogin.watch(() => void look())
    void begin()
    return () => clearTimeout(timer)
  }, [])
  if (login === 'unknown') return <main class="alone">{problem && <ProblemBox problem={problem} />}</main>
  if (offered !== '') {
    const answer = (why?: Problem) => {
      setOffered('')
      setRefused(why)
      if (theLogin.secret !== '') setLogin('in')
    }
    return <OfferPage token={offered} loggedIn={login === 'in'} onAnswer={answer} />
  }
  if (login === 'out') return <LoginPage ended={ended} refused={refused} failed={failed} onIn={() => setLogin('in')} />
  return <Shell onOut={out} />
}

const links: [string, string, Route['page'][]][] = [
  ['Executions', hrefs.executions(), ['executions', 'execution', 'start']],
  ['Streams', hrefs.streams, ['streams', 'stream']],
  ['Sessions', hrefs.sessions, ['sessions']],
  ['Schedules', hrefs.schedules, ['schedules', 'schedule']],
  ['Webhooks', hrefs.webhooks, ['webhooks', 'webhook']],
  ['MCP', hrefs.mcp, ['mcp', 'mcp-session']],
  ['Tasks', hrefs.tasks, ['tasks']],
  ['Replicas', hrefs.replicas, ['replicas']],
  ['Server', hrefs.server, ['server']],
]

/** How often the page asks what its login may do, in milliseconds: that does not change. */
const lookAtScopes = 3_600_000

function Shell({ onOut }: { onOut: () => void }) {
  const route = useRoute()
  const { value: server, problem } = usePolled((signal) => get<{ scopes: Scope[] }>('/v1/server', signal), lookAtScopes, [])
  const main = useRef<HTMLElement>(null)
  const at = `${route.page} ${route.name}`
  useEffect(() => {
    // Another page begins at its beginning for those who do not see it, unless it has put the caret somewhere itself.
    document.querySelector('nav [aria-current]')?.scrollIntoView({ inline: 'nearest', block: 'nearest' })
    if (!main.current?.contains(document.activeElement)) main.current?.focus({ preventScroll: true })
  }, [at])
  const logOut = useAction(async () => {
    await call('DELETE', '/v1/login')
    onOut()
  })
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        To the content
      </a>
      <header class="top">
        <a class="brand" href={hrefs.executions()} aria-label="Reprise">
          <Mark />
          <span>Reprise</span>
        </a>
        <nav aria-label="Pages">
          {links.map(([name, href, pages]) => (
            <a key={name} href={href} {...(pages.includes(route.page) && { 'aria-current': 'page' as const })}>
              {name}
            </a>
          ))}
        </nav>
        <span class="grow" />
        <ThemeSwitch />
        <button type="button" class="quiet" onClick={() => void logOut.run()}>
          Log out
        </button>
      </header>
      <main tabIndex={-1} ref={main} aria-label={route.page}>
        <ProblemBox problem={logOut.problem} onClose={logOut.clear} />
        <Scopes.Provider value={server?.scopes}>{(server || problem) && <Page route={route} />}</Scopes.Provider>
      </main>
    </div>
  )
}

function Page({ route }: { route: Route }): ComponentChildren {
  switch (route.page) {
    case 'executions':
      return <ExecutionsPage query={route.query} />
    case 'execution':
      return <ExecutionPage key={route.name} id={route.name} query={route.query} />
    case 'start':
      return <StartPage key={route.query.get('again') ?? ''} again={route.query.get('again') ?? ''} />
    case 'streams':
      return <StreamsPage />
    case 'stream':
      return <StreamPage key={route.name} name={route.name} />
    case 'sessions':
      return <SessionsPage />
    case 'schedules':
      return <SchedulesPage />
    case 'schedule':
      return <SchedulePage key={route.name} id={route.name} />
    case 'webhooks':
      return <WebhooksPage />
    case 'webhook':
      return <WebhookPage key={route.name} id={route.name} />
    case 'mcp':
      return <MCPPage />
    case 'mcp-session':
      return <MCPSessionPage key={route.name} id={route.name} />
    case 'tasks':
      return <TasksPage />
    case 'replicas':
      return <ReplicasPage />
    case 'server':
      return <ServerPage />
    case 'none':
      return (
        <Empty title="There is no such page">
          <a href={hrefs.executions()}>All executions</a>
        </Empty>
      )
  }
}

function ThemeSwitch() {
  const [theme, setTheme] = useState<Theme>(chosenTheme)
  return (
    <select
      class="quiet"
      aria-label="Theme"
      value={theme}
      onChange={(event) => {
        const chosen = event.currentTarget.value as Theme
        chooseTheme(chosen)
        setTheme(chosen)
      }}
    >
      <option value="auto">Auto</option>
      <option value="light">Light</option>
      <option value="dark">Dark</option>
    </select>
  )
}
