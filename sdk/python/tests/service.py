"""The client behind the service contract of "reprise check-client": commands on stdin, what happened on stdout, a JSON
object a line.

    reprise check-client -- python sdk/python/tests/service.py
"""

import asyncio
import base64
import json
import sys

from reprise import AsyncReprise, Gap, RepriseError


def say(message, member=""):
    line = json.dumps(message)
    if member:  # JSON as it came, which Python may not decode
        line = f"{line[:-2]}, {member}}}}}"
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def give(id, event):
    if isinstance(event, Gap):
        gap = {"code": event.code, "missed": event.missed}
        if event.taken_back:
            gap["taken_back"] = event.taken_back
        return say({"id": id, "gap": gap})
    told = {"seq": event.seq, "cursor": event.cursor, "type": event.type}
    if event.is_json:
        text = json.dumps(event.object) if event.type == "end" else event.text
        member = f'"json": {text}'.replace("\n", " ")
    else:
        member = f'"data": "{base64.b64encode(event.bytes).decode()}"'
    say({"id": id, "event": told}, member)


def client(command):
    waits = {f"{name}_wait": command[f"{name}_wait_ms"] / 1000 for name in ("min", "max") if f"{name}_wait_ms" in command}
    return AsyncReprise(command["url"], command["token"], **waits)


def options(command):
    chosen = {"on_gap": "raise" if command.get("gap") == "fail" else "event"}
    if command.get("after"):
        chosen["after"] = command["after"]
    if command.get("types"):
        chosen["types"] = command["types"]
    if command.get("idle_ms"):
        chosen["idle_timeout"] = command["idle_ms"] / 1000
    return chosen


async def follow(reprise, command):
    async for event in reprise.streams.follow(command["stream"], **options(command)):
        give(command["id"], event)


async def run(reprise, command):
    chosen = {"id": command["execution"]} if "execution" in command else {}
    detach = command.get("detach", False)
    await reprise.run(command["argv"], detach=detach, on_event=lambda event: give(command["id"], event), **chosen)


async def publish(reprise, command):
    producer = reprise.producer(command["stream"])
    tasks = command.get("at_once", 1)

    async def task(first):
        for n in range(first, command["count"] + 1, tasks):
            await producer.publish("note", {"n": n})

    await asyncio.gather(*map(task, range(1, tasks + 1)))


VERBS = {"follow": follow, "run": run, "publish": publish}


async def perform(command):
    try:
        async with client(command) as reprise:
            await VERBS[command["do"]](reprise, command)
    except RepriseError as error:
        say({"id": command["id"], "error": {"code": error.code, "text": str(error)}})
    except asyncio.CancelledError:
        pass  # it was stopped
    say({"id": command["id"], "done": True})


async def main():
    say({"hello": {"name": "Python, asyncio", "kind": "reprise", "can": ["types", "gap", "tail", "run", "publish", "tls"]}})
    tasks = {}
    while line := await asyncio.to_thread(sys.stdin.readline):
        command = json.loads(line)
        if command["do"] == "stop":
            tasks[command["id"]].cancel()
            continue
        tasks[command["id"]] = asyncio.create_task(perform(command))
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)


asyncio.run(main())
