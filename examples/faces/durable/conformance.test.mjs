// The public tests of servers for Durable Streams, with the credential that they do not know of.
import { runConformanceTests } from "@durable-streams/server-conformance-tests";

const plain = globalThis.fetch;
globalThis.fetch = (url, init = {}) => {
  const headers = new Headers(init.headers ?? (url instanceof Request ? url.headers : undefined));
  headers.set("Authorization", `Bearer ${process.env.REPRISE_TOKEN}`);
  return plain(url, { ...init, headers });
};

runConformanceTests({ baseUrl: process.env.DURABLE_URL });
