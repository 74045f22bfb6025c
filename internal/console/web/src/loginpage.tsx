import { useEffect, useState } from 'preact/hooks'
import { type Problem, type Who, get, logIn, problemOf, whoIs } from './api'
import { useAction, useTitle } from './hooks'
import { ProblemBox, caret } from './parts'
import { leaveFor } from './provider'

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
export function OfferPage({ token, loggedIn, onAnswer }: OfferProps) {
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

interface LoginProps {
  /** Why the last login has ended, the token of the address was refused, or no provider has logged the person in. */
  ended: Problem | undefined
  refused: Problem | undefined
  failed: Problem | undefined
  onIn: () => void
}

export function LoginPage({ ended, refused, failed, onIn }: LoginProps) {
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
        <Providers failed={failed} />
      </form>
    </main>
  )
}

/** A button for each identity provider at which the server lets people log in. */
function Providers({ failed }: { failed: Problem | undefined }) {
  const [names, setNames] = useState<string[]>([])
  useEffect(() => void get<{ providers: string[] }>('/v1/login').then(({ providers }) => setNames(providers), () => {}), [])
  const leave = useAction(leaveFor)
  return (
    <>
      <ProblemBox problem={leave.problem ?? failed} />
      {names.map((name) => (
        <button key={name} type="button" disabled={leave.busy} onClick={() => void leave.run(name)}>
          Log in with {name}
        </button>
      ))}
    </>
  )
}

/** The sign of a repetition. */
export function Mark() {
  return (
    <svg class="mark" viewBox="0 0 20 20" aria-hidden="true">
      <circle cx="3" cy="7" r="1.6" />
      <circle cx="3" cy="13" r="1.6" />
      <rect x="7.5" y="2" width="1.4" height="16" />
      <rect x="11.5" y="2" width="4" height="16" />
    </svg>
  )
}
