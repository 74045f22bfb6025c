// What clients of Durable Streams do on a Reprise server; see ../durable.sh, which kills the server when this asks for it.
import assert from "node:assert/strict";
import { once } from "node:events";

import { DurableStream, IdempotentProducer } from "@durable-streams/client";
import { EventSource } from "eventsource";

const [server, proxy] = process.argv.slice(2);
const LINES = 200;
const headers = { Authorization: `Bearer ${process.env.REPRISE_TOKEN}` };
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// keepOn does something again until it succeeds.
async function keepOn(what) {
  for (;;) {
    try {
      return await what();
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
      await pause(50);
    }
  }
}

// ticket lets a page read a stream without a key.
async function ticket(stream) {
  const body = JSON.stringify({ stream });
  const made = await fetch(`http://${server}/v1/tickets`, { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body });
  assert.equal(made.status, 201);
  return (await made.json()).ticket;
}

// event reads a stream with an EventSource, which comes back by itself and knows nothing of the protocol.
async function byEventSource(name) {
  const url = `http://${proxy}/v1/stream/${name}?offset=-1&live=sse&ticket=${await ticket(name)}`;
  const seen = [];
  let opened = 0;
  await new Promise((done) => {
    const source = new EventSource(url);
    source.onopen = () => { opened++; };
    source.addEventListener("data", (event) => seen.push(...JSON.parse(event.data)));
    source.addEventListener("control", (event) => {
      if (JSON.parse(event.data).streamClosed) {
        source.close();
        done();
      }
    });
  });
  return { seen, how: `an EventSource, ${opened} connections` };
}

// byClient reads a stream with the client of the protocol, which a program starts again at the offset that it has reached.
async function byClient(name, live) {
  const seen = [];
  let offset = "-1";
  let sessions = 0;
  for (let closed = false; !closed; ) {
    await keepOn(async () => {
      sessions++;
      const stream = new DurableStream({ url: `http://${proxy}/v1/stream/${name}`, headers });
      const session = await stream.stream({ offset, live, json: true });
      await new Promise((done, failed) => {
        session.closed.then(done, failed);
        session.subscribeJson((batch) => {
          seen.push(...batch.items);
          offset = batch.offset;
          closed = closed || batch.streamClosed;
        });
      });
      closed = closed || session.streamClosed;
    });
  }
  return { seen, how: `the client, ${live}, ${sessions} sessions` };
}

// write appends the lines with a producer that numbers them, and sends each again until it is acknowledged.
async function write(name, kill) {
  for (let i = 0; i < LINES; i++) {
    if (i === 50 && kill) {
      console.log("kill");
      await once(process.stdin, "data");
      process.stdin.destroy();
    }
    await keepOn(async () => {
      const response = await fetch(`http://${server}/v1/stream/${name}`, {
        method: "POST", body: JSON.stringify(`line ${i}`),
        headers: { ...headers, "Content-Type": "application/json", "Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": `${i}` },
      });
      if (response.status >= 500) throw new Error(`${response.status}`);
      assert.ok([200, 204].includes(response.status), `${response.status}`);
    });
    await pause(5);
  }
  await new DurableStream({ url: `http://${server}/v1/stream/${name}`, headers, contentType: "application/json" }).close();
}

for (const how of ["cuts", "cuts and a SIGKILL"]) {
  const name = `lines/${how.replaceAll(" ", "-")}`;
  await DurableStream.create({ url: `http://${server}/v1/stream/${name}`, headers, contentType: "application/json" });
  const readers = [byEventSource(name), byClient(name, "sse"), byClient(name, "long-poll"), byEventSource(name)];
  await write(name, how !== "cuts");
  for (const { seen, how: reader } of await Promise.all(readers)) {
    assert.deepEqual(seen, Array.from({ length: LINES }, (_, i) => `line ${i}`), reader);
    console.log(`${seen.length} of ${LINES} lines once, over ${how}: ${reader}`);
  }
}

// The producer of the client has several requests under way.
const handle = await DurableStream.create({ url: `http://${server}/v1/stream/produced`, headers, contentType: "application/json" });
const producer = new IdempotentProducer(handle, "q", { lingerMs: 0, maxBatchBytes: 100, onError: (error) => { throw error; } });
for (let i = 0; i < LINES; i++) producer.append(JSON.stringify(i));
await producer.flush();
await producer.close();
const all = await (await handle.stream({ offset: "-1", live: false })).json();
assert.deepEqual(all, Array.from({ length: LINES }, (_, i) => i));
console.log(`${all.length} of ${LINES} messages of the client's producer once, in order`);
