// The AI SDK's MCP client, npm @ai-sdk/mcp, without a model. It does not come back to a call by itself, so it gets a fetch
// that does.
//
//	node ai_sdk.mjs http://127.0.0.1:8090/mcp Oslo
import { createMCPClient } from "@ai-sdk/mcp";

const last = (block, name) => block.match(new RegExp(`^${name}: ?(.*)$`, "m"))?.[1];

// fetch whose answers to a POST go on over connections that break: they are asked for again after the last id, until the
// answer to the request has come. Only whole blocks are passed on.
async function resumingFetch(url, init) {
  const first = await fetch(url, init);
  if (init?.method !== "POST" || !first.headers.get("content-type")?.startsWith("text/event-stream")) return first;
  const headers = { ...init.headers, Accept: "text/event-stream" };
  delete headers["Content-Type"];
  async function* blocks() {
    let id, answered = false, wait = 1000, failures = 0;
    for (let response = first; ; ) {
      let text = "";
      try {
        for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
          text += chunk;
          for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
            const block = text.slice(0, end + 2);
            id = last(block, "id") || id;
            wait = Number(last(block, "retry") ?? wait);
            answered ||= /^data:.*"(result|error)":/m.test(block);
            failures = 0;
            yield new TextEncoder().encode(block);
          }
        }
      } catch (error) {
        if (init.signal?.aborted) throw error;
      }
      if (answered || !id) return;
      for (response = undefined; !response; ) {
        if (++failures > 10) throw new Error("the answer cannot be resumed");
        await new Promise((done) => setTimeout(done, wait));
        response = await fetch(url, { headers: { ...headers, "Last-Event-ID": id }, signal: init.signal }).catch(() => undefined);
        if (response && !response.ok) throw new Error(`the answer cannot be resumed: status ${response.status}`);
      }
    }
  }
  return new Response(ReadableStream.from(blocks()), first);
}

const [url, city] = process.argv.slice(2);
const client = await createMCPClient({
  transport: { type: "http", url, fetch: resumingFetch },
  protocolVersionDiscovery: false, // version 2025-11-25, which has sessions
});
const tools = await client.tools();
const result = await tools.forecast.execute({ city }, { messages: [], toolCallId: "1" });
console.log("result", result.content[0].text);
await client.close();
