// An MCP server on the official TypeScript SDK: server.mjs VERSION PORT REPRISE_URL TOKEN [adopt]. VERSION is 1 or 2. Its
// tool counts.
//
// The SDK keeps its sessions in memory. With "adopt" the server takes over a session of another process, of which the messages are
// still there; it sets what the SDK declares private. `reprise gateway` does that for any server, without such means.
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { Reprise } from 'reprise'
import { EventStores } from 'reprise/mcp'
import { z } from 'zod'

const [version, port, url, token, adopts] = process.argv.slice(2)
const one = version === '1'
const { McpServer } = await import(one ? '@modelcontextprotocol/sdk/server/mcp.js' : '@modelcontextprotocol/server')
const { StreamableHTTPServerTransport: Transport } = one
  ? await import('@modelcontextprotocol/sdk/server/streamableHttp.js')
  : { StreamableHTTPServerTransport: (await import('@modelcontextprotocol/node')).NodeStreamableHTTPServerTransport }

const stores = new EventStores(new Reprise({ url, token }), { lostAfter: Number(process.env.LOST_AFTER ?? 0) })
const transports = new Map()

function newServer() {
  const server = new McpServer({ name: 'counter', version: '1' })
  const inputSchema = z.object({ steps: z.number().default(50), delay_ms: z.number().default(10) })
  server.registerTool('count', { description: 'Counts.', inputSchema }, async ({ steps, delay_ms: pause }, context) => {
    const [notify, meta] = one ? [context.sendNotification, context._meta] : [context.mcpReq.notify, context.mcpReq._meta]
    for (let progress = 1; progress <= steps; progress++) {
      await notify({ method: 'notifications/progress', params: { progressToken: meta.progressToken, progress } })
      await new Promise((resolve) => setTimeout(resolve, pause))
    }
    return { content: [{ type: 'text', text: 'counted' }] }
  })
  return server
}

async function open(sessionId) {
  const eventStore = stores.session(sessionId)
  const transport = new Transport({ sessionIdGenerator: () => sessionId, eventStore })
  transport.onclose = () => transports.delete(sessionId) && eventStore.end()
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
  const transport = sessionId ? (transports.get(sessionId) ?? (adopts && (await adopt(sessionId)))) : await open(randomUUID())
  await stores.serve(request, response, transport)
})
http.listen(Number(port), '127.0.0.1', () => console.log(`listening on ${http.address().port}`))
