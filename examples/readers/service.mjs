// Puts a reader that others wrote behind the service contract of "reprise check-client", as a reader of any source:
//
//   READERS_MODULES=FOLDER reprise check-client -- node examples/readers/service.mjs eventsource
//
// examples/readers.sh installs the packages, into ${XDG_CACHE_HOME:-~/.cache}/reprise/readers.
import { createRequire } from "node:module";
import path from "node:path";
import readline from "node:readline";
import { setTimeout } from "node:timers/promises";

const require = createRequire(path.join(process.env.READERS_MODULES, "readers.js"));
const name = process.argv[2];
const say = (object) => process.stdout.write(JSON.stringify(object) + "\n");
const types = ["message", "note", "noise", "end"];
const stops = new Map();

const readers = {
  eventsource({ id, source, token, after }) {
    const { EventSource } = require("eventsource");
    const extra = { Authorization: `Bearer ${token}`, ...(after ? { "Last-Event-ID": after } : {}) };
    const reader = new EventSource(source, {
      fetch: (url, init) => fetch(url, { ...init, headers: { ...extra, ...init.headers } }),
    });
    const done = () => {
      reader.close();
      say({ id, done: true });
    };
    for (const type of types) reader.addEventListener(type, (e) => tell(id, e.type, e.lastEventId, e.data));
    reader.onerror = () => reader.readyState === EventSource.CLOSED && done();
    return done;
  },
  "launchdarkly-eventsource"({ id, source, token, after, min_wait_ms, max_wait_ms, idle_ms }) {
    const { EventSource } = require("launchdarkly-eventsource");
    const reader = new EventSource(source, {
      headers: { Authorization: `Bearer ${token}`, ...(after ? { "Last-Event-ID": after } : {}) },
      initialRetryDelayMillis: min_wait_ms,
      maxBackoffMillis: max_wait_ms,
      readTimeoutMillis: idle_ms,
      errorFilter: ({ status }) => status !== 204,
    });
    // The end of a response is an event of the type "end" to it, without data.
    const take = (e) => e.data !== undefined && tell(id, e.type, e.lastEventId, e.data);
    for (const type of types) reader.addEventListener(type, take);
    reader.on("error", () => {}); // it asks again
    reader.addEventListener("closed", () => say({ id, done: true }));
    return () => reader.close();
  },
  "fetch-event-source"({ id, source, token, after }) {
    globalThis.window = globalThis; // it was made for pages
    globalThis.document = { hidden: false, addEventListener() {}, removeEventListener() {} };
    const { fetchEventSource } = require("@microsoft/fetch-event-source");
    const controller = new AbortController();
    let last = after ?? "";
    const ended = new Error("204"); // which it does not know
    fetchEventSource(source, {
      signal: controller.signal,
      headers: { Authorization: `Bearer ${token}`, ...(after ? { "last-event-id": after } : {}) },
      async onopen(response) {
        if (response.status === 204) throw ended;
      },
      onerror: (error) => {
        if (error === ended) throw error; // else it comes back
      },
      onmessage: (e) => {
        if (e.id) last = e.id;
        if (e.data) tell(id, e.event || "message", last, e.data);
      },
      onclose: () => {
        throw new Error("the response has ended"); // else it does not come back
      },
    }).catch(() => {}).finally(() => say({ id, done: true }));
    return () => controller.abort();
  },
  // It parses and makes no requests: this is the loop that its users write around it.
  "eventsource-parser"({ id, source, token, after }) {
    const { createParser } = require("eventsource-parser");
    const { signal, abort } = bound(new AbortController());
    let last = after ?? "";
    let wait = 1000;
    const once = async () => {
      const headers = { Accept: "text/event-stream", Authorization: `Bearer ${token}`, ...(last ? { "Last-Event-ID": last } : {}) };
      const response = await fetch(source, { signal, headers });
      if (response.status === 204) return abort();
      if (response.status !== 200) throw new Error(`status ${response.status}`);
      const parser = createParser({
        onRetry: (ms) => (wait = ms),
        onEvent: (e) => {
          last = e.id ?? last;
          tell(id, e.event ?? "message", last, e.data);
        },
      });
      for await (const text of response.body.pipeThrough(new TextDecoderStream())) parser.feed(text);
    };
    (async () => {
      while (!signal.aborted) {
        await once().catch(() => {});
        if (!signal.aborted) await setTimeout(wait, undefined, { signal }).catch(() => {});
      }
      say({ id, done: true });
    })();
    return abort;
  },
};

function bound(controller) {
  return { signal: controller.signal, abort: () => controller.abort() };
}

function tell(id, type, cursor, data) {
  say({ id, event: { type, cursor, data: Buffer.from(data, "utf8").toString("base64") } });
}

say({ hello: { name, kind: "sse", can: [] } });
for await (const line of readline.createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  if (command.do === "stop") stops.get(command.id)?.();
  else stops.set(command.id, readers[name](command));
}
process.exit(0);
