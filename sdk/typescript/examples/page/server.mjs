// The server of the page: server.mjs [PORT]. For each visitor it starts a run at the Reprise server, and gives the page a ticket that
// reads this run and nothing else. The Reprise server has to allow the page's origin:
//
//     reprise serve --allow-origin http://127.0.0.1:3000
//     npm install && node page/server.mjs
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { build } from 'esbuild'
import { Reprise } from 'reprise'
import { localToken } from 'reprise/node'

const reprise = new Reprise({ token: process.env.REPRISE_TOKEN ?? (await localToken()) })
const bundle = await build({
  entryPoints: [join(import.meta.dirname, 'page.jsx')],
  bundle: true,
  format: 'esm',
  jsx: 'automatic',
  write: false,
  define: { 'process.env.NODE_ENV': '"production"' },
})

const http = createServer(async (request, response) => {
  if (request.url === '/page.js') {
    response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(bundle.outputFiles[0].text)
  } else if (request.url === '/run') {
    const { id } = await reprise.start({ command: 'for i in $(seq 100); do echo line $i; sleep 0.02; done' })
    const { ticket } = await reprise.tickets.create({ execution: id })
    response.writeHead(200, { 'Content-Type': 'application/json' })
    response.end(JSON.stringify({ url: process.env.PUBLIC_URL ?? reprise.url, id, ticket }))
  } else {
    response.writeHead(200, { 'Content-Type': 'text/html' }).end(readFileSync(join(import.meta.dirname, 'index.html')))
  }
})
http.listen(Number(process.argv[2] ?? 3000), '127.0.0.1', () => console.log(`listening on http://127.0.0.1:${http.address().port}`))
