/** Light, dark, or what the system says. */
export type Theme = 'auto' | 'light' | 'dark'

const key = 'reprise-theme'

/** What was chosen in this browser. */
export function chosenTheme(): Theme {
  const stored = localStorage.getItem(key)
  return stored === 'light' || stored === 'dark' ? stored : 'auto'
}

export function chooseTheme(theme: Theme): void {
  if (theme === 'auto') localStorage.removeItem(key)
  else localStorage.setItem(key, theme)
  applyTheme(theme)
}

export function applyTheme(theme: Theme): void {
  document.documentElement.dataset.theme = theme
}
