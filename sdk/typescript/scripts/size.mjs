// The size of the client in a page: the entry and all that it imports, minified; without what is loaded at the first transfer.
import { gzipSync } from 'node:zlib'
import { build } from '../examples/node_modules/esbuild/lib/main.js'

export async function bundleSize() {
  const entryPoints = [new URL('../dist/esm/index.js', import.meta.url).pathname]
  const options = { bundle: true, minify: true, splitting: true, format: 'esm', write: false, metafile: true, outdir: 'out' }
  const { outputFiles, metafile } = await build({ entryPoints, ...options })
  const needed = new Set()
  const need = (name) => {
    needed.add(name)
    for (const { path, kind } of metafile.outputs[name].imports) if (kind === 'import-statement' && !needed.has(path)) need(path)
  }
  need('out/index.js')
  const parts = outputFiles.filter(({ path }) => [...needed].some((name) => path.endsWith(name)))
  if (parts.length !== needed.size) throw new Error(`${parts.length} files of ${needed.size}`)
  const sum = (length) => parts.reduce((all, { contents }) => all + length(contents), 0)
  return { bytes: sum((part) => part.length), size: sum((part) => gzipSync(part, { level: 9 }).length) }
}
