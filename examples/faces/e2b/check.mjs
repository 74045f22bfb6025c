// What the JavaScript SDKs of E2B do on a Reprise server; see ../e2b.sh, which kills the server when this asks for it.
import assert from "node:assert/strict";
import { once } from "node:events";

import { Sandbox } from "@e2b/code-interpreter";

const [server, , proxy] = process.argv.slice(2);
const LINES = 200;
const KILL = "a SIGKILL of the server";
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const sandbox = await Sandbox.create();

// at returns the sandbox at an address. With "/after/BYTES" a connection is sent what is behind so many bytes.
const at = (address, after = "") => Sandbox.connect(sandbox.sandboxId, { sandboxUrl: `http://${address}/e2b${after}` });

// A command goes on while its streams break, and the SDK gets every line once.
async function broken(address, how) {
  let text = "";
  let asked = false;
  const onStdout = (data) => {
    text += data;
    if (how === KILL && !asked && text.includes("line 50\n")) {
      asked = true;
      console.log("kill");
    }
  };
  const first = await at(server);
  const { pid } = await first.commands.run(`for i in $(seq ${LINES}); do echo line $i; sleep 0.02; done; exit 7`, { background: true });
  let breaks = 0;
  let code;
  while (code === undefined) {
    try {
      const here = await at(address, `/after/${Buffer.byteLength(text)}`);
      const command = await here.commands.connect(pid, { onStdout });
      code = (await command.wait()).exitCode;
    } catch (error) {
      code = error.exitCode;
      if (code === undefined && ++breaks === 1 && how === KILL) {
        await once(process.stdin, "data");
        process.stdin.destroy();
      }
      await pause(20);
    }
  }
  assert.equal(text, Array.from({ length: LINES }, (_, i) => `line ${i + 1}\n`).join(""));
  assert.equal(code, 7);
  assert.ok(breaks > 0, "nothing broke");
  console.log(`${LINES} of ${LINES} lines once, exit code ${code}, over ${how}`);
}

await broken(proxy, "a proxy that cuts");
await broken(server, KILL);

// Input, signals and the list.
const cat = await sandbox.commands.run("cat", { background: true, stdin: true });
assert.deepEqual((await sandbox.commands.list()).map((p) => p.pid).includes(cat.pid), true);
await sandbox.commands.sendStdin(cat.pid, "hello\n");
await sandbox.commands.closeStdin(cat.pid);
assert.equal((await cat.wait()).stdout, "hello\n");
const sleep = await sandbox.commands.run("sleep 100", { background: true });
assert.equal(await sleep.kill(), true);
await assert.rejects(sleep.wait(), (error) => error.exitCode === -1);
assert.equal(await sandbox.commands.kill(sleep.pid), false);
const pty = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => {} });
await sandbox.pty.sendInput(pty.pid, new TextEncoder().encode("exit 3\n"));
await assert.rejects(pty.wait(), (error) => error.exitCode === 3);

// Files.
await sandbox.files.write("a/one.txt", "text ü");
assert.equal(await sandbox.files.read("a/one.txt"), "text ü");
assert.equal(await sandbox.files.exists("a/none"), false);
const seen = [];
const watch = await sandbox.files.watchDir("a", (event) => seen.push(`${event.type} ${event.name}`));
await sandbox.files.rename("a/one.txt", "a/two.txt");
for (let i = 0; i < 200 && seen.length < 2; i++) await pause(50);
await watch.stop();
assert.deepEqual(seen, ["rename one.txt", "create two.txt"]);
assert.deepEqual((await sandbox.files.list("a")).map((entry) => entry.name), ["two.txt"]);
await sandbox.files.remove("a");

// Code.
await sandbox.runCode("x = 20");
const run = await sandbox.runCode("print('hi')\nx + 1");
assert.equal(run.text, "21");
assert.deepEqual(run.logs.stdout, ["hi\n"]);
assert.equal((await sandbox.runCode("1/0")).error.name, "ZeroDivisionError");
const context = await sandbox.createCodeContext({ language: "javascript" });
assert.equal((await sandbox.runCode("6 * 7", { context })).text, "42");
await sandbox.removeCodeContext(context);
assert.equal(await sandbox.kill(), true);
console.log("commands, a terminal, files and code");
