// The TypeScript SDK 1.x, npm @modelcontextprotocol/sdk: it comes back by itself.
//
//	node typescript1.mjs http://127.0.0.1:8090/mcp Oslo
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, city] = process.argv.slice(2);
const client = new Client({ name: "forecast-client", version: "1" });
const transport = new StreamableHTTPClientTransport(new URL(url));
await client.connect(transport);
console.log("version", transport.protocolVersion);
const result = await client.callTool({ name: "forecast", arguments: { city } }, undefined, {
  onprogress: ({ progress }) => console.log("progress", progress),
});
console.log("result", result.content[0].text);
await client.close();
