// The OAuth client of the TypeScript SDK 2.x, npm @modelcontextprotocol/client, on either era of the protocol.
//
//	node typescript2.mjs http://127.0.0.1:7070/mcp [legacy|auto]
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from "@modelcontextprotocol/client";
import { Person } from "./browser.mjs";
import { use } from "./use.mjs";

const url = new URL(process.argv[2]);
const mode = process.argv[3] ?? "legacy";
const person = new Person();
let transport;
const client = await person.trying(() => transport, UnauthorizedError, async () => {
  const client = new Client({ name: "a-test", version: "1" }, { versionNegotiation: { mode } });
  transport = new StreamableHTTPClientTransport(url, { authProvider: person });
  await client.connect(transport);
  return client;
});
console.log("version", transport.protocolVersion);
await use(client, person, (act) => person.trying(() => transport, UnauthorizedError, act), url);
