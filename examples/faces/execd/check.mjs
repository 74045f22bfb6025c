// What the JavaScript SDK of OpenSandbox does on a Reprise server; see ../execd.sh, which kills the server when this asks for it.
import assert from "node:assert/strict";
import { once } from "node:events";

import { ConnectionConfig, Sandbox } from "@alibaba-group/opensandbox";

const [server, work, proxy] = process.argv.slice(2);
const LINES = 200;
const KILL = "a SIGKILL of the server";

function connect(domain) {
  const apiKey = process.env.OPEN_SANDBOX_API_KEY;
  return Sandbox.connect({ sandboxId: "any", connectionConfig: new ConnectionConfig({ domain, protocol: "http", apiKey }) });
}

const sandbox = await connect(server);

// restOf returns the lines of a command whose first ones were seen, from its log by the bytes of these, and its exit code.
async function restOf(id, lines) {
  let text = "";
  let cursor = lines.reduce((bytes, line) => bytes + Buffer.byteLength(line) + 1, 0);
  for (;;) {
    const status = await sandbox.commands.getCommandStatus(id);
    const logs = await sandbox.commands.getBackgroundCommandLogs(id, cursor);
    text += logs.content;
    cursor = logs.cursor;
    if (!status.running && logs.content === "") {
      return { lines: [...lines, ...text.split("\n").slice(0, -1)], code: status.exitCode };
    }
    await new Promise((done) => setTimeout(done, 50));
  }
}

// A command goes on while its stream breaks, and the SDK gets every line once.
async function broken(through, how) {
  const seen = [];
  let id;
  try {
    await through.commands.run(`for i in $(seq ${LINES}); do echo line $i; sleep 0.02; done; exit 7`, undefined, {
      onInit: (event) => { id = event.id; },
      onStdout: (message) => {
        seen.push(message.text);
        if (seen.length === 50 && how === KILL) console.log("kill");
      },
    });
    throw new assert.AssertionError({ message: "the stream did not break" });
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
    console.log(`after ${seen.length} lines: ${error.constructor.name}`);
  }
  if (how === KILL) {
    await once(process.stdin, "data");
    process.stdin.destroy();
  }
  const all = await restOf(id, seen);
  assert.deepEqual(all.lines, Array.from({ length: LINES }, (_, i) => `line ${i + 1}`));
  assert.equal(all.code, 7);
  console.log(`${all.lines.length} of ${LINES} lines once, exit code ${all.code}, over ${how}`);
}

await broken(sandbox, KILL);
await broken(await connect(proxy), "connections that are cut");

const texts = (messages) => messages.map((m) => m.text);
const run = await sandbox.commands.run("echo out; echo err >&2; printf 'a\\n\\nb\\n'; exit 3");
assert.deepEqual(texts(run.logs.stdout), ["out", "a", "\n", "b"]);
assert.deepEqual(texts(run.logs.stderr), ["err"]);
assert.equal(run.exitCode, 3);
const background = await sandbox.commands.run("echo on; exit 4", { background: true });
assert.deepEqual(await restOf(background.id, []), { lines: ["on"], code: 4 });
console.log("commands and background");

const path = `${work}/javascript/hello.txt`;
await sandbox.files.writeFiles([{ path, data: "hello\n" }]);
assert.equal(await sandbox.files.readFile(path), "hello\n");
await sandbox.files.deleteDirectories([`${work}/javascript`]);
console.log("files");
await sandbox.close?.();
