// What the login may do. The server decides; the page does not offer what it would refuse.

import { type ComponentChildren, createContext } from 'preact'
import { useContext } from 'preact/hooks'

export type Scope = 'read' | 'publish' | 'run' | 'control' | 'admin' | 'audit'

/** The scopes of the login, undefined as long as they are not known: then all is offered. */
export const Scopes = createContext<Scope[] | undefined>(undefined)

export function useMay(scope: Scope): boolean {
  const scopes = useContext(Scopes)
  return scopes === undefined || scopes.includes(scope)
}

const lacking = (scope: Scope) => `This login does not have the scope ${scope}`

/** Buttons and fields for which a scope is needed: without it none of them can be used. */
export function Needs({ scope, children }: { scope: Scope; children: ComponentChildren }) {
  const may = useMay(scope)
  return (
    <fieldset class="needs" role="none" disabled={!may} {...(!may && { title: lacking(scope) })}>
      {children}
    </fieldset>
  )
}

/** A link to a page that is of use with a scope alone. */
export function LinkFor(props: { scope: Scope; href: string; primary?: boolean; children: string }) {
  const may = useMay(props.scope)
  if (may) {
    return (
      <a class={props.primary ? 'button primary' : 'button'} href={props.href}>
        {props.children}
      </a>
    )
  }
  return (
    <button type="button" disabled title={lacking(props.scope)}>
      {props.children}
    </button>
  )
}
