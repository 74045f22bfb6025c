// An MCP server on the official TypeScript SDK: server.mjs VERSION PORT REPRISE_URL TOKEN. VERSION is 1 or 2. Its tool counts, slowly.
//
// The SDK keeps its sessions in memory. adopt makes a server take over a session of another process, of which the messages are
// still there; it sets what the SDK declares private. `reprise gateway` does that for any server, without such means.
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { Reprise } from 'reprise'
import { EventStores } from 'reprise/mcp'

const [version, port, url, token] = process.argv.slice(2)
const one = version === '1'
const { McpServer } = await import(one ? '@modelcontextprotocol/sdk/server/mcp.js' : '@modelcontextprotocol/server')
const { StreamableHTTPServerTransport: Transport } = one
  ? await import('@modelcontextprotocol/sdk/server/streamableHttp.js')
  : { StreamableHTTPServerTransport: (await import('@modelcontextprotocol/node')).NodeStreamableHTTPServerTransport }

const stores = new EventStores(new Reprise({ url, token }))
const transports = new Map()

function newServer() {
  const server = new McpServer({ name: 'counter', version: '1' })
  server.registerTool('count', { description: 'Counts to 50.' }, async (context) => {
    const notify = one ? context.sendNotification : context.mcpReq.notify
    for (let progress = 1; progress <= 50; progress++) {
      await notify({ method: 'notifications/progress', params: { progressToken: 'p', progress } })
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    return { content: [{ type: 'text', text: 'counted' }] }
  })
  return server
}

async function open(sessionId) {
  const eventStore = stores.session(sessionId)
  const transport = new Transport({ sessionIdGenerator: () => sessionId, eventStore })
  transport.onclose = () => eventStore.end()
  await newServer().connect(transport)
  transports.set(sessionId, transport)
  return transport
}

async function adopt(sessionId) {
  if (!(await stores.has(sessionId))) return undefined
  const transport = await open(sessionId)
  Object.assign(transport._webStandardTransport, { sessionId, _initialized: true })
  return transport
}

const http = createServer(async (request, response) => {
  const sessionId = request.headers['mcp-session-id']
  const transport = sessionId ? (transports.get(sessionId) ?? (await adopt(sessionId))) : await open(randomUUID())
  if (transport) await transport.handleRequest(request, response)
  else response.writeHead(404).end()
})
http.listen(Number(port), '127.0.0.1', () => console.log(`listening on ${http.address().port}`))
