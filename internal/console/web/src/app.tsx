import type { ComponentChildren } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { type Problem, type Who, call, get, logIn, problemOf, watchLogin, whoIs } from './api'
import { ExecutionPage } from './execution'
import { ExecutionsPage } from './executions'
import { useAction, usePolled, useTitle } from './hooks'
import { theLogin } from './login'
import { type Scope, Scopes } from './may'
import { MCPPage } from './mcp'
import { MCPSessionPage } from './mcpcalls'
import { Empty, ProblemBox, caret } from './parts'
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

/** The console. token, if not empty, came with the address: the person is asked whether to log in by it. */
export function App({ token }: { token: string }) {
  const [login, setLogin] = useState<State>('unknown')
  const [problem, setProblem] = useState<Problem>()
  const [offered, setOffered] = useState(token)
  const [refused, setRefused] = useState<Problem>()
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
    watchLogin(out)
    theLogin.watch(() => void look())
    void look()
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
  if (login === 'out') return <LoginPage ended={ended} refused={refused} onIn={() => setLogin('in')} />
  return <Shell onOut={out} />
}

interface OfferProps {
  token: string
  loggedIn: boolean
  /** Called when the address has been dealt with; with a problem if its token is not good. */
  onAnswer(refused?: Problem): void
}

/**
 * Asks whether to log in by a token that came with the address. Anybody can make such an address, and a person who followed
 * it would not see that what they do from then on belongs to somebody else.
 */
function OfferPage({ token, loggedIn, onAnswer }: OfferProps) {
  const [offer, setOffer] = useState<{ by?: Who; now: Who | undefined }>()
  const [problem, setProblem] = useState<Problem>()
  const login = useAction(async () => {
    await logIn(token)
    onAnswer()
  })
  useTitle('Log in')
  useEffect(() => {
    let gone = false
    let timer: ReturnType<typeof setTimeout> | undefined
    const look = async () => {
      try {
        const now = loggedIn ? await whoIs() : undefined
        const by = await whoIs(token).catch((error: unknown) => {
          if (problemOf(error).status !== 401) throw error
          if (!now) onAnswer(problemOf(error))
          return undefined
        })
        if (gone) return
        if (by && now && by.principal === now.principal && by.tenant === now.tenant) onAnswer()
        else setOffer({ ...(by && { by }), now })
        setProblem(undefined)
      } catch (error) {
        if (gone) return
        setProblem(problemOf(error))
        if (problemOf(error).retryable) timer = setTimeout(() => void look(), 1500)
      }
    }
    void look()
    return () => {
      gone = true
      clearTimeout(timer)
    }
  }, [loggedIn])
  const { by, now } = offer ?? {}
  return (
    <main class="alone">
      <ProblemBox problem={login.problem ?? problem} />
      {offer && (
        <section class="login" aria-label="Log in by the address">
          <h1>
            <Mark /> Reprise
          </h1>
          {by ? (
            <p>
              The address that you have opened logs you in as <Named who={by} />. What you do then belongs to it.
            </p>
          ) : (
            <p class="problem" role="alert">The token in the address is not the token of this server.</p>
          )}
          {now && (
            <p>
              You are logged in as <Named who={now} />. {by && 'The other login would replace this one in all tabs.'}
            </p>
          )}
          {by && (
            <button type="button" class={now ? '' : 'primary'} disabled={login.busy} onClick={() => void login.run()}>
              Log in as {by.principal ?? 'somebody'}
            </button>
          )}
          <button type="button" class={now ? 'primary' : 'quiet'} onClick={() => onAnswer()}>
            {now ? `Stay logged in as ${now.principal ?? 'before'}` : 'Do not log in by it'}
          </button>
        </section>
      )}
    </main>
  )
}

function Named({ who: { principal, tenant } }: { who: Who }) {
  return (
    <>
      <b class="mono">{principal ?? 'somebody'}</b> of the tenant <b class="mono">{tenant}</b>
    </>
  )
}

function LoginPage({ ended, refused, onIn }: { ended: Problem | undefined; refused: Problem | undefined; onIn: () => void }) {
  const [token, setToken] = useState('')
  const login = useAction(async () => {
    await logIn(token.trim())
    onIn()
  })
  useTitle('Log in')
  const problem = login.problem ?? refused
  return (
    <main class="alone">
      <form
        class="login"
        onSubmit={(event) => {
          event.preventDefault()
          void login.run()
        }}
      >
        <h1>
          <Mark /> Reprise
        </h1>
        {ended && !problem && <p class="problem" role="alert">Your login has ended: {ended.detail || ended.title}.</p>}
        <p>
          The server wants to know that you may use it. Take its token, from the file that it named when it was started (<code>token in …</code>), or an API key that
          somebody has given you.
        </p>
        <label class="field">
          <span>Token or API key</span>
          <input
            type="password"
            class="mono"
            autocomplete="current-password"
            ref={caret}
            required
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        {problem?.code === 'unauthenticated' ? (
          <p class="problem" role="alert">That is not the token of this server, and no API key that is in use.</p>
        ) : (
          <ProblemBox problem={problem} />
        )}
        <button type="submit" class="primary" disabled={login.busy}>
          Log in
        </button>
      </form>
    </main>
  )
}

/** The sign of a repetition. */
function Mark() {
  return (
    <svg class="mark" viewBox="0 0 20 20" aria-hidden="true">
      <circle cx="3" cy="7" r="1.6" />
      <circle cx="3" cy="13" r="1.6" />
      <rect x="7.5" y="2" width="1.4" height="16" />
      <rect x="11.5" y="2" width="4" height="16" />
    </svg>
  )
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
