// The second secret of a login. The cookie alone counts for nothing, since a browser sends it to every port of the host;
// this secret stays with pages of this origin: in the storage of each tab, and between tabs of one browser.

/** The header that carries the secret. */
export const loginHeader = 'Login-Secret'

const key = 'reprise login'

type Message = { kind: 'wanted' } | { kind: 'offered' | 'begun'; secret: string }

/** The secret of one tab. Tabs that the person opens later get it from those that have it. */
export class Login {
  secret: string

  /** Secrets that the server has refused. A tab that has not noticed may still offer one. */
  private readonly refused = new Set<string>()
  private channel: BroadcastChannel | undefined
  private onSecret: () => void = () => {}

  constructor() {
    this.secret = stored(() => sessionStorage.getItem(key)) ?? ''
  }

  /** Shares the secret with other tabs from now on, and asks them if this one has none. Calls onSecret when it gets one. */
  watch(onSecret: () => void): void {
    this.onSecret = onSecret
    this.channel = new BroadcastChannel(key)
    this.channel.onmessage = ({ data }: MessageEvent<Message>) => this.hear(data)
    if (this.secret === '') this.say({ kind: 'wanted' })
  }

  /** Begins to use a secret that the server has just given, and tells the other tabs. */
  begin(secret: string): void {
    this.keep(secret)
    this.say({ kind: 'begun', secret })
  }

  /** Forgets the secret, which counts no more, and asks the other tabs for a newer one. */
  end(): void {
    if (this.secret !== '') this.refused.add(this.secret)
    this.keep('')
    this.say({ kind: 'wanted' })
  }

  private hear(message: Message): void {
    const had = this.secret
    if (message.kind === 'wanted') {
      if (had !== '') this.say({ kind: 'offered', secret: had })
    } else if (had === '' ? !this.refused.has(message.secret) : message.kind === 'begun') {
      this.keep(message.secret)
      if (had === '') this.onSecret()
      else location.reload() // the login of this tab was replaced, and what it shows is of that one
    }
  }

  private keep(secret: string): void {
    this.secret = secret
    stored(() => (secret === '' ? sessionStorage.removeItem(key) : sessionStorage.setItem(key, secret)))
  }

  private say(message: Message): void {
    this.channel?.postMessage(message)
  }
}

/** Uses the storage of the tab, which a browser may forbid: the secret then lasts until the page is left. */
function stored<T>(use: () => T): T | undefined {
  try {
    return use()
  } catch {
    return undefined
  }
}

export const theLogin = new Login()
