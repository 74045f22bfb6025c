"""What the Python SDKs of OpenSandbox do on a Reprise server; see ../execd.sh, which kills the server when this asks for it."""

import asyncio
import logging
import os
import sys
from datetime import timedelta

from code_interpreter import CodeInterpreter
from code_interpreter.models.code import SupportedLanguage
from opensandbox import Sandbox
from opensandbox.config import ConnectionConfig
from opensandbox.models.execd import ExecutionHandlers, RunCommandOpts
from opensandbox.models.filesystem import ContentReplaceEntry, MoveEntry, SearchEntry

server, work, proxy = sys.argv[1:]
LINES = 200
logging.getLogger("opensandbox").setLevel(logging.CRITICAL)  # it logs each broken connection with its traceback


def same(what, got, want):
    if got != want:
        sys.exit(f"{what}: {got!r}, not {want!r}")


async def connect(domain):
    return await Sandbox.connect(
        "any", connection_config=ConnectionConfig(domain=domain, protocol="http", api_key=os.environ["OPEN_SANDBOX_API_KEY"])
    )


def texts(messages):
    return [m.text for m in messages]


async def rest_of(sandbox, id, lines):
    """The lines of a command whose first ones were seen, from its log by the bytes of these, and its exit code."""
    text, cursor = "", sum(len(line.encode()) + 1 for line in lines)
    while True:
        status = await sandbox.commands.get_command_status(id)
        logs = await sandbox.commands.get_background_command_logs(id, cursor)
        text, cursor = text + logs.content, logs.cursor
        if not status.running and not logs.content:
            return lines + text.splitlines(), status.exit_code
        await asyncio.sleep(0.05)


async def broken(sandbox, through, how):
    """A command goes on while its stream breaks, and the SDK gets every line once."""
    seen, started = [], asyncio.get_running_loop().create_future()

    async def init(event):
        started.set_result(event.id)

    async def line(message):
        seen.append(message.text)
        if len(seen) == 50 and how == "a SIGKILL of the server":
            print("kill", flush=True)

    command = f"for i in $(seq {LINES}); do echo line $i; sleep 0.02; done; exit 7"
    try:
        await through.commands.run(command, handlers=ExecutionHandlers(on_init=init, on_stdout=line))
        sys.exit("the stream did not break")
    except Exception as error:
        print(f"after {len(seen)} lines: {type(error).__name__}")
    if how == "a SIGKILL of the server":
        await asyncio.to_thread(sys.stdin.readline)
    lines, code = await rest_of(sandbox, await started, seen)
    same("lines", lines, [f"line {i + 1}" for i in range(LINES)])
    same("exit code", code, 7)
    print(f"{len(lines)} of {LINES} lines once, exit code {code}, over {how}")


async def commands(sandbox):
    run = await sandbox.commands.run("echo out; echo err >&2; printf 'a\\n\\nb\\n'; exit 3")
    same("stdout", texts(run.logs.stdout), ["out", "a", "\n", "b"])
    same("stderr", texts(run.logs.stderr), ["err"])
    same("exit code", run.exit_code, 3)
    run = await sandbox.commands.run("true")
    same("success", (run.exit_code, run.error), (0, None))
    run = await sandbox.commands.run(["echo", "$HOME"], opts=RunCommandOpts(envs={"A": "b"}))
    same("arguments", texts(run.logs.stdout), ["$HOME"])
    run = await sandbox.commands.run("sleep 60", opts=RunCommandOpts(timeout=timedelta(milliseconds=200)))
    same("timeout", run.exit_code, -1)
    run = await sandbox.commands.run("echo on; exit 4", opts=RunCommandOpts(background=True))
    same("background", await rest_of(sandbox, run.id, []), (["on"], 4))
    run = await sandbox.commands.run("sleep 60", opts=RunCommandOpts(background=True))
    await sandbox.commands.interrupt(run.id)
    same("interrupted", (await rest_of(sandbox, run.id, []))[1], -1)
    session = await sandbox.commands.create_session(working_directory="/tmp")
    await sandbox.commands.run_in_session(session, "export A=1; cd /")
    run = await sandbox.commands.run_in_session(session, "echo $A $PWD; false")
    same("session", (texts(run.logs.stdout), run.exit_code), (["1 /"], 1))
    await sandbox.commands.delete_session(session)
    print("commands, background, interrupt and sessions")


async def files(sandbox):
    path = work + "/python/hello.txt"
    await sandbox.files.write_file(path, "hello\nworld\n")
    await sandbox.files.replace_contents([ContentReplaceEntry(path=path, old_content="world", new_content="moon")])
    same("file", await sandbox.files.read_file(path), "hello\nmoon\n")
    await sandbox.files.move_files([MoveEntry(src=path, dest=work + "/python/2.txt")])
    found = await sandbox.files.search(SearchEntry(path=work, pattern="2.*"))
    same("search", [f.path for f in found], [work + "/python/2.txt"])
    await sandbox.files.delete_directories([work + "/python"])
    same("metrics", (await sandbox.get_metrics()).cpu_count, float(os.cpu_count()))
    print("files and metrics")


async def code(sandbox):
    interpreter = await CodeInterpreter.create(sandbox)
    context = await interpreter.codes.create_context(SupportedLanguage.PYTHON)
    run = await interpreter.codes.run("x = 41\nprint('hi')\nx + 1", context=context)
    same("value", ([r.text for r in run.result], texts(run.logs.stdout)), (["42"], ["hi\n"]))
    run = await interpreter.codes.run("1/0", context=context)
    same("error", run.error.name, "ZeroDivisionError")
    run = await interpreter.codes.run("console.log(6 * 7)", language=SupportedLanguage.JAVASCRIPT)
    same("javascript", texts(run.logs.stdout), ["42\n"])
    await interpreter.codes.delete_context(context.id)
    print("code in contexts")


async def main():
    sandbox = await connect(server)
    await broken(sandbox, sandbox, "a SIGKILL of the server")
    await broken(sandbox, await connect(proxy), "connections that are cut")
    await commands(sandbox)
    await files(sandbox)
    await code(sandbox)


asyncio.run(main())
