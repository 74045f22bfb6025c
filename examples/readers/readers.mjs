// Reads a stream with the reader that is named, and prints each event that it dispatches as a line of JSON: type, id, data.
//
//   node readers.mjs eventsource URL
//
// The packages are found in READERS_MODULES, the token in REPRISE_TOKEN.
import { createRequire } from "node:module";
import path from "node:path";

const require = createRequire(path.join(process.env.READERS_MODULES, "readers.js"));
const headers = { Authorization: `Bearer ${process.env.REPRISE_TOKEN}` };
const [name, url] = process.argv.slice(2);
const print = (type, id, data) => console.log(JSON.stringify([type, id, data]));

const readers = {
  async "fetch-event-source"() {
    // It was made for pages.
    globalThis.window = globalThis;
    globalThis.document = { hidden: false, addEventListener() {}, removeEventListener() {} };
    const { fetchEventSource } = require("@microsoft/fetch-event-source");
    await fetchEventSource(url, {
      headers,
      onmessage: (e) => print(e.event, e.id, e.data),
      onerror: (error) => { throw error; },
    });
  },
  async eventsource() {
    const { EventSource } = require("eventsource");
    const source = new EventSource(url, {
      fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, ...headers } }),
    });
    await new Promise((resolve) => {
      for (const type of ["message", "note", "noise", "cursor", "end"]) {
        source.addEventListener(type, (e) => {
          print(e.type, e.lastEventId, e.data);
          if (e.type === "end") resolve();
        });
      }
    });
    source.close();
  },
  async "eventsource-parser"() {
    const { createParser } = require("eventsource-parser");
    const retries = [];
    const parser = createParser({
      onEvent: (e) => print(e.event, e.id, e.data),
      onRetry: (retry) => retries.push(retry),
      onError: (error) => { throw error; },
    });
    const response = await fetch(url, { headers: { ...headers, Accept: "text/event-stream" } });
    const decoder = new TextDecoder();
    for await (const chunk of response.body) parser.feed(decoder.decode(chunk, { stream: true }));
    if (retries.join() !== "1000") throw new Error(`retry: ${retries}`);
  },
};
setTimeout(() => process.exit(1), 40_000).unref();
await readers[name]();
process.exit(0);
