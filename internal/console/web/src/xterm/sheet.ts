/**
 * Stands in for the elements `style` that xterm.js makes, which the policy of the page forbids: what is written into it
 * becomes a sheet of the document. build.mjs puts it there.
 */
export function sheetElement(): HTMLElement {
  const sheet = new CSSStyleSheet()
  document.adoptedStyleSheets.push(sheet)
  const element = document.createElement('div')
  element.hidden = true
  Object.defineProperty(element, 'textContent', { set: (text: string) => sheet.replaceSync(text) })
  element.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== sheet)
    HTMLElement.prototype.remove.call(element)
  }
  return element
}
