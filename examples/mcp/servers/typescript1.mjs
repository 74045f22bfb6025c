// A server on the TypeScript SDK 1.x, npm @modelcontextprotocol/sdk, with the event store of its examples, for
// "reprise check-mcp". Its tool counts.
//
//	node typescript1.mjs 8090
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { InMemoryEventStore } from '@modelcontextprotocol/sdk/examples/shared/inMemoryEventStore.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { z } from 'zod'

const transports = new Map()

function newServer() {
  const server = new McpServer({ name: 'typescript1', version: '1' })
  const inputSchema = { steps: z.number(), delay_ms: z.number() }
  server.registerTool('count', { inputSchema }, async ({ steps, delay_ms: pause }, { sendNotification, _meta }) => {
    for (let progress = 1; progress <= steps; progress++) {
      await sendNotification({ method: 'notifications/progress', params: { progressToken: _meta.progressToken, progress } })
      if (pause > 0) await new Promise((resolve) => setTimeout(resolve, pause))
    }
    return { content: [{ type: 'text', text: `counted to ${steps}` }] }
  })
  return server
}

async function open() {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    eventStore: new InMemoryEventStore(),
    onsessioninitialized: (id) => transports.set(id, transport),
    onsessionclosed: (id) => transports.delete(id),
  })
  await newServer().connect(transport)
  return transport
}

const http = createServer(async (request, response) => {
  const id = request.headers['mcp-session-id']
  const transport = id ? transports.get(id) : await open()
  if (transport) await transport.handleRequest(request, response)
  else response.writeHead(404).end()
})
http.listen(Number(process.argv[2]), '127.0.0.1', () => console.log(`listening on http://127.0.0.1:${http.address().port}/mcp`))
