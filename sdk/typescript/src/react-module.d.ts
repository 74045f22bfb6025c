// What reprise/react uses of React, so that the types of React are not needed to build or use this package.
declare module 'react' {
  export function useState<S>(initial: S): [S, (next: S) => void]
  export function useEffect(effect: () => () => void, dependencies: readonly unknown[]): void
}
