// Logins at an identity provider: the page leaves for the provider, and comes back with a code in its address.

import { Problem, call } from './api'
import { theLogin } from './login'

const key = 'reprise flow'

/** What a provider has put into the address of the page. */
interface Answer {
  code: string
  state: string
  issuer: string
  error: string
}

/** Takes the answer of a provider out of the address, before anything else can see it there. */
export function takeAnswer(): Answer | undefined {
  const query = new URLSearchParams(location.search)
  if (!query.has('state')) return undefined
  history.replaceState(null, '', location.pathname + location.hash)
  const text = (name: string) => query.get(name) ?? ''
  return { code: text('code'), state: text('state'), issuer: text('iss'), error: text('error') }
}

/** Leaves for a provider. Only this tab, in pages of this origin, keeps what its answer needs. */
export async function leaveFor(provider: string): Promise<void> {
  const { url, flow, redirect } = await call<{ url: string; flow: string; redirect: string }>('POST', '/v1/login/flows', { provider })
  if (new URL(redirect).origin !== location.origin) {
    throw new Problem('elsewhere', 'This is another address than the provider knows', `Open ${redirect} to log in there.`, 0, false)
  }
  sessionStorage.setItem(key, JSON.stringify({ flow, hash: location.hash }))
  location.assign(url)
}

/** Logs in by the answer of a provider, for which this tab has asked. */
export async function finish({ code, state, issuer, error }: Answer): Promise<void> {
  const kept = sessionStorage.getItem(key)
  sessionStorage.removeItem(key)
  if (!kept) throw new Problem('foreign', 'No login was begun here', 'This tab has not asked an identity provider for anything.', 0, false)
  const { flow, hash } = JSON.parse(kept) as { flow: string; hash: string }
  if (code === '') throw new Problem('refused', 'The identity provider has not logged you in', /^\w{1,40}$/.test(error) ? error : '', 0, false)
  theLogin.begin((await call<{ secret: string }>('POST', '/v1/login', { code, state, flow, issuer })).secret)
  location.hash = hash
}
