"""What the Python SDK of E2B does on a Reprise server; see ../e2b.sh, which kills the server when this asks for it."""

import asyncio
import sys
import time

from e2b import AsyncSandbox, CommandExitException, PtySize, Sandbox

server, _, proxy = sys.argv[1:]
LINES = 200
KILL = "a SIGKILL of the server"
sandbox = Sandbox.create()


def broken(address: str, how: str) -> None:
    """A command goes on while its streams break, and the SDK gets every line once."""
    first = Sandbox.connect(sandbox.sandbox_id, sandbox_url=f"http://{server}/e2b")
    command = f"for i in $(seq {LINES}); do echo line $i; sleep 0.02; done; exit 7"
    pid = first.commands.run(command, background=True).pid
    text, breaks, code, asked = "", 0, None, False
    while code is None:
        try:
            url = f"http://{address}/e2b/after/{len(text.encode())}"
            here = Sandbox.connect(sandbox.sandbox_id, sandbox_url=url)
            for stdout, _, _ in here.commands.connect(pid):
                text += stdout or ""
                if how == KILL and not asked and "line 50\n" in text:
                    asked = True
                    print("kill", flush=True)
            code = here.commands.connect(pid).wait().exit_code
        except CommandExitException as ended:
            code = ended.exit_code
        except Exception:
            breaks += 1
            if how == KILL and breaks == 1:
                sys.stdin.readline()
            time.sleep(0.02)
    assert text == "".join(f"line {i + 1}\n" for i in range(LINES)), text
    assert code == 7 and breaks > 0, (code, breaks)
    print(f"{LINES} of {LINES} lines once, exit code {code}, over {how}", flush=True)


broken(proxy, "a proxy that cuts")
broken(server, KILL)

cat = sandbox.commands.run("cat", background=True, stdin=True)
assert cat.pid in [p.pid for p in sandbox.commands.list()]
sandbox.commands.send_stdin(cat.pid, "hello\n")
sandbox.commands.close_stdin(cat.pid)
assert cat.wait().stdout == "hello\n"
sleep = sandbox.commands.run("sleep 100", background=True)
assert sleep.kill()
try:
    sleep.wait()
    raise AssertionError("a killed command succeeded")
except CommandExitException as ended:
    assert ended.exit_code == -1
assert not sandbox.commands.kill(sleep.pid)
pty = sandbox.pty.create(PtySize(rows=24, cols=80))
sandbox.pty.send_stdin(pty.pid, b"exit 3\n")
try:
    pty.wait()
    raise AssertionError("the terminal did not end with 3")
except CommandExitException as ended:
    assert ended.exit_code == 3

sandbox.files.write("p/one.bin", b"\x00\xff")
assert bytes(sandbox.files.read("p/one.bin", format="bytes")) == b"\x00\xff"
watch = sandbox.files.watch_dir("p")
sandbox.files.rename("p/one.bin", "p/two.bin")
events: list[str] = []
for _ in range(200):
    events += [event.name for event in watch.get_new_events()]
    if len(events) >= 2:
        break
    time.sleep(0.05)
watch.stop()
assert events == ["one.bin", "two.bin"], events
assert [entry.name for entry in sandbox.files.list("p")] == ["two.bin"]
sandbox.files.remove("p")


async def streamed() -> None:
    again = await AsyncSandbox.connect(sandbox.sandbox_id)
    command = await again.commands.run("cat", background=True, stdin=True)
    stdin = again.commands.stream_input(command.pid)
    await stdin.send("one\n")
    await stdin.send("two\n")
    await stdin.close()
    await again.commands.close_stdin(command.pid)
    assert (await command.wait()).stdout == "one\ntwo\n"


asyncio.run(streamed())
assert sandbox.kill()
print("commands, a terminal, files and a stream of input", flush=True)
