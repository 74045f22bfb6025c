// What clients of others do behind the relay: the AI SDK's transport reloads in mid-answer, and the SDK of OpenAI asks again.
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";

import { DefaultChatTransport } from "ai";
import OpenAI from "openai";

const [base, cutting] = process.argv.slice(2);
const WHOLE = Array.from({ length: 60 }, (_, i) => `${i} `).join("");

async function take(stream, most) {
  let text = "";
  const reader = stream.getReader();
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return text;
    if (value.type === "text-delta") text += value.delta;
    if (text.split(" ").length > most) {
      await reader.cancel();
      return text;
    }
  }
}

// useChat with "resume: true" does this when its page is loaded.
const cut = new AbortController();
const page = new DefaultChatTransport({ api: `${base}/api/chat` });
const chatId = randomUUID();
const messages = [{ id: "1", role: "user", parts: [{ type: "text", text: "count" }] }];
const first = await take(
  await page.sendMessages({ chatId, messages, trigger: "submit-message", abortSignal: cut.signal }), 10);
cut.abort();
const reloaded = new DefaultChatTransport({ api: `${base}/api/chat` });
assert.equal(await take(await reloaded.reconnectToStream({ chatId }), Infinity), WHOLE);
assert.equal(await reloaded.reconnectToStream({ chatId }), null);
console.log(`AI SDK: ${first.split(" ").length - 1} words, a reload, and all ${WHOLE.split(" ").length - 1}`);

const openai = new OpenAI({ baseURL: `${cutting}/v1`, apiKey: "of the backend" });
const headers = { "Idempotency-Key": randomUUID() };
const request = { model: "m", messages: [{ role: "user", content: "count" }], stream: true };
for (let tries = 1; ; tries++) {
  let text = "";
  try {
    for await (const chunk of await openai.chat.completions.create(request, { headers })) {
      text += chunk.choices[0].delta.content ?? "";
    }
    assert.equal(text, WHOLE);
    console.log(`OpenAI for Node: whole at the ${tries}. try`);
    break;
  } catch (error) {
    if (error instanceof assert.AssertionError || tries === 20) throw error;
    console.log(`OpenAI for Node: cut after ${text.split(" ").length - 1} words`);
  }
}
