import { render } from 'preact'
import { App } from './app'
import { takeAnswer } from './provider'
import { applyTheme, chosenTheme } from './theme'

/** Takes a token out of the address, "#token=...", before anything else can see it there. */
function takeToken(): string {
  const match = /^#token=([^&]+)$/.exec(location.hash)
  if (!match) return ''
  history.replaceState(null, '', location.pathname)
  try {
    return decodeURIComponent(match[1]!)
  } catch {
    return match[1]!
  }
}

const token = takeToken()
const answer = takeAnswer()
applyTheme(chosenTheme())
render(<App token={token} answer={answer} />, document.getElementById('app')!)
