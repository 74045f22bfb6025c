// Writes docs/api-typescript.md from the declarations in dist/esm: what each entry of the package exports, with its comments.
// "node scripts/api.mjs --check" fails if the file is not what would be written.
import { readFileSync, writeFileSync } from 'node:fs'

const target = new URL('../../../docs/api-typescript.md', import.meta.url)
const entries = { index: 'reprise', shared: 'reprise/shared', admin: 'reprise/admin', node: 'reprise/node', react: 'reprise/react', ai: 'reprise/ai', 'assistant-ui': 'reprise/assistant-ui', mcp: 'reprise/mcp', 'mcp-storetest': 'reprise/mcp/storetest' }
const read = (name) => readFileSync(new URL(`../dist/esm/${name}.d.ts`, import.meta.url), 'utf8')

const passedOn = /^export (?:type )?(\{[^}]*\}|\*) from '\.\/([\w-]+)\.js';/gm

/** The declarations of a file and of what it passes on, by name. */
function declarations(text) {
  const form = /(\/\*\*(?:(?!\*\/)[^])*\*\/\n)?^export (?:declare |abstract )*(class|interface|type|function|const) (\w+)([^]*?\n(?=\/\*\*|export |declare |interface |\}|$(?![^])))(\})?/gm
  const found = new Map()
  for (const [, comment, kind, name, rest, brace] of text.matchAll(form)) {
    const before = found.get(name)
    const code = `${kind} ${name}${rest}${brace ?? ''}`.trimEnd()
    found.set(name, { kind, comment: prose(comment ?? before?.comment), code: before ? `${before.code}\n${code}` : code })
  }
  for (const [, names, from] of text.matchAll(passedOn)) {
    const there = declarations(read(from))
    const passed = names === '*' ? [...there.keys()].map((name) => [name, name]) : [...names.matchAll(/(\w+)(?: as (\w+))?/g)].map((m) => [m[1], m[2] ?? m[1]])
    for (const [name, as] of passed) {
      const one = there.get(name)
      if (one) found.set(as, { ...one, code: one.code.replace(name, as) })
    }
  }
  return found
}

/** A comment without its stars, and with names for its links. */
function prose(comment = '') {
  const lines = comment.split('\n').map((line) => line.replace(/^\s*(\/\*\*|\*\/|\*)? ?/, '').replace(/\s*\*\/$/, ''))
  return lines.join('\n').replace(/\{@link (\w+(?:\.\w+)?)\}/g, '`$1`').replace(/^\s+|\s+$/g, '')
}

/** The members of a class or interface, each with its comment. */
function members(code) {
  const body = code.slice(code.indexOf('{\n') + 2, code.lastIndexOf('\n}') + 1)
  const list = []
  for (const [, comment, text] of body.matchAll(/^    (\/\*\*(?:(?!\*\/)[^])*\*\/\n    )?(\S[^]*?);\n(?=    \S|$(?![^]))/gm)) {
    if (!/^(private|protected|constructor\(\))/.test(text)) list.push([text.replace(/\n    /g, '\n'), prose(comment)])
  }
  return list
}

function describe(name, { kind, comment, code }) {
  const head = `### ${name}\n\n${comment ? `${comment}\n\n` : ''}`
  if (kind !== 'class') return `${head}\`\`\`ts\n${code.replace(/^ {4}/gm, '  ')}\n\`\`\`\n`
  const rows = members(code).map(([text, about]) => {
    const shown = text.includes('\n') ? `\`\`\`ts\n${text}\n\`\`\`` : `**\`${text}\`**`
    return `${shown}\n${about ? `\n${about}\n` : ''}`
  })
  const first = code.slice(0, code.indexOf('{')).trim()
  return `${head}\`\`\`ts\n${first}\n\`\`\`\n\n${rows.join('\n')}`
}

let page = '# API of the client for TypeScript\n\nMade by `node scripts/api.mjs` in `sdk/typescript` from the sources: change those. How it is used is in [its README](../sdk/typescript/README.md).\n'
for (const [entry, name] of Object.entries(entries)) {
  page += `\n## ${name}\n`
  for (const [symbol, found] of declarations(read(entry))) page += `\n${describe(symbol, found)}`
}
if (!process.argv.includes('--check')) {
  writeFileSync(target, page)
} else if (readFileSync(target, 'utf8') !== page) {
  console.error('docs/api-typescript.md is not what the sources make: run "node scripts/api.mjs" in sdk/typescript.')
  process.exit(1)
}
