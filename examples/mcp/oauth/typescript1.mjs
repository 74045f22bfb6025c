// The OAuth client of the TypeScript SDK 1.x, npm @modelcontextprotocol/sdk.
//
//	node typescript1.mjs http://127.0.0.1:7070/mcp
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";
import { Person } from "./browser.mjs";
import { use } from "./use.mjs";

const url = new URL(process.argv[2]);
const person = new Person();
let transport;
const client = await person.trying(() => transport, UnauthorizedError, async () => {
  const client = new Client({ name: "a-test", version: "1" });
  transport = new StreamableHTTPClientTransport(url, { authProvider: person });
  await client.connect(transport);
  return client;
});
console.log("version", transport.protocolVersion);
await use(client, person, (act) => person.trying(() => transport, UnauthorizedError, act), url);
