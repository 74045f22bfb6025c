// Builds the console into ../dist, which is checked in and embedded in the binary. With --tests it builds the tests in
// test/ into build/, for node --test; with another argument, into that folder.
import { build } from 'esbuild'
import { mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'

/**
 * Changes xterm.js in five places: four make styles that the policy of the page forbids, and one fails, after which nothing
 * more is drawn, when a program erases up to the end of the last line.
 */
const changesOfXterm = {
  name: 'changes of xterm.js',
  setup({ onLoad }) {
    onLoad({ filter: /@xterm\/xterm\/lib\/xterm\.mjs$/ }, async (file) => {
      let contents = await readFile(file.path, 'utf8')
      for (const [from, to, times] of [
        [/[\w.]+\.createElement\("style"\)/g, 'sheetElement()', 3],
        [/(\w+)\.setAttribute\("style",`\$\{\1\.getAttribute\("style"\)\|\|""\}/g, '($1.style.cssText=`${$1.style.cssText}', 1],
        [/([\w.]+\.lines\.get\(\w+\+1\))\.isWrapped=!1/g, '($1||{}).isWrapped=!1', 1],
      ]) {
        const found = contents.match(from)?.length
        if (found !== times) throw new Error(`${file.path} has ${from} ${found} times, not ${times}`)
        contents = contents.replace(from, to)
      }
      return { contents: `import { sheetElement } from ${JSON.stringify(path.resolve('src/xterm/sheet'))}\n${contents}` }
    })
  },
}

const out = path.resolve(process.argv[2] ?? path.join(import.meta.dirname, '../dist'))
process.chdir(import.meta.dirname)

if (process.argv.includes('--tests')) {
  await rm('build', { recursive: true, force: true })
  const tests = (await readdir('test')).filter((name) => name.endsWith('.test.ts'))
  await build({
    entryPoints: tests.map((name) => path.join('test', name)),
    outdir: 'build',
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    format: 'esm',
    logLevel: 'warning',
  })
} else {
  await buildConsole(out)
}

/** Writes index.html and the files that it needs, each under a name that holds a hash of its content. */
async function buildConsole(dist) {
  await rm(dist, { recursive: true, force: true })
  await mkdir(dist, { recursive: true })
  const settings = {
    outdir: dist,
    bundle: true,
    minify: true,
    format: 'esm',
    target: 'es2022',
    jsx: 'automatic',
    jsxImportSource: 'preact',
    entryNames: '[name]-[hash]',
    assetNames: '[name]-[hash]',
    chunkNames: '[name]-[hash]',
    publicPath: '/console/',
    loader: { '.woff2': 'file', '.svg': 'copy' },
    banner: { js: '/* Preact, xterm.js and the fonts: see /console/licences.txt */' },
    metafile: true,
    legalComments: 'none',
    logLevel: 'warning',
    plugins: [changesOfXterm],
  }
  const built = await Promise.all([
    build({ ...settings, entryPoints: { app: 'src/main.tsx', style: 'src/style.css', icon: 'src/icon.svg' }, splitting: true }),
    build({ ...settings, entryPoints: { hub: 'src/hub.ts' } }), // a worker, which is one file
  ])
  const names = built.flatMap(({ metafile }) => Object.keys(metafile.outputs)).map((name) => path.basename(name))
  const named = (start, end) => {
    const name = names.find((name) => name.startsWith(start) && name.endsWith(end))
    if (!name) throw new Error(`${start}*${end} was not built`)
    return `/console/${name}`
  }
  const page = await readFile('src/index.html', 'utf8')
  const filled = page
    .replace('{script}', named('app-', '.js'))
    .replace('{hub}', named('hub-', '.js'))
    .replace('{style}', named('style-', '.css'))
    .replace('{icon}', named('icon-', '.svg'))
    .replace('{font}', named('inter-latin-wght-normal', '.woff2'))
    .replace('{mono}', named('jetbrains-mono-latin-wght-normal', '.woff2'))
  await writeFile(path.join(dist, 'index.html'), filled)
  const licences = []
  for (const [title, file] of [
    ['Preact', 'preact/LICENSE'],
    ['xterm.js', '@xterm/xterm/LICENSE'],
    ['Links and sizes of xterm.js', '@xterm/addon-web-links/LICENSE'],
    ['Unicode of xterm.js', '@xterm/addon-unicode11/LICENSE'],
    ['Inter', '@fontsource-variable/inter/LICENSE'],
    ['JetBrains Mono', '@fontsource-variable/jetbrains-mono/LICENSE'],
  ]) {
    licences.push(`${title}\n${'='.repeat(title.length)}\n\n${(await readFile(`node_modules/${file}`, 'utf8')).trim()}\n`)
  }
  await writeFile(path.join(dist, 'licences.txt'), licences.join('\n\n'))
}
