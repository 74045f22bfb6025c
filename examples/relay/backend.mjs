// A backend that streams, as many do: the AI SDK at /api/chat, and the API of OpenAI at /v1/chat/completions. It knows nothing of
// the relay. "calls" of GET /calls is how often it was asked.
import { createServer } from "node:http";
import { setTimeout as pause } from "node:timers/promises";

import { createUIMessageStream, pipeUIMessageStreamToResponse } from "ai";

const WORDS = 60;
let calls = 0;

async function chat(response) {
  const stream = createUIMessageStream({
    execute: async ({ writer }) => {
      writer.write({ type: "text-start", id: "1" });
      for (let i = 0; i < WORDS; i++) {
        writer.write({ type: "text-delta", id: "1", delta: `${i} ` });
        await pause(50);
      }
      writer.write({ type: "text-end", id: "1" });
    },
  });
  pipeUIMessageStreamToResponse({ response, stream });
}

async function completions(response) {
  response.writeHead(200, { "content-type": "text/event-stream" });
  const chunk = (delta, finish_reason = null) =>
    `data: ${JSON.stringify({ id: "c", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
  for (let i = 0; i < WORDS; i++) {
    response.write(chunk({ content: `${i} ` }));
    await pause(50);
  }
  response.end(`${chunk({}, "stop")}data: [DONE]\n\n`);
}

const server = createServer(async (request, response) => {
  for await (const _ of request); // the body
  if (request.url === "/calls") return void response.end(String(calls));
  calls++;
  await (request.url === "/api/chat" ? chat(response) : completions(response)).catch(() => response.destroy());
});
server.listen(Number(process.argv[2]), "127.0.0.1", () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
