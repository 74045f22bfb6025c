// The TypeScript SDK 2.x, npm @modelcontextprotocol/client: it comes back by itself. It speaks version 2025-11-25 unless
// it is told otherwise.
//
//	node typescript2.mjs http://127.0.0.1:8090/mcp Oslo
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, city] = process.argv.slice(2);
const client = new Client({ name: "forecast-client", version: "1" });
const transport = new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);
console.log("version", transport.protocolVersion);
const result = await client.callTool(
  { name: "forecast", arguments: { city } },
  // By itself a call has 60 seconds.
  { onprogress: ({ progress }) => console.log("progress", progress), timeout: 600_000 },
);
console.log("result", result.content[0].text);
await client.close();
