"""The options of a start."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from ._wire import Duration


class Terminal(TypedDict, total=False):
    """The size of a terminal in characters."""

    cols: int
    rows: int


class Limits(TypedDict, total=False):
    """Resource limits of a run. A run that exceeds a limit is killed and ends as "limit_exceeded"."""

    output_bytes: int
    memory_bytes: int
    processes: int
    cpu_time: Duration


class Retention(TypedDict, total=False):
    """How much of a stream is kept. max_age counts from the end. max_idle is how long a stream may be open without new events;
    then the server ends it as "failed" with the code "idle". It is refused for executions.
    max_age_each is how old an event may become while the stream is open."""

    max_events: int
    max_bytes: int
    max_age: Duration
    max_idle: Duration
    max_age_each: Duration


class Access(TypedDict, total=False):
    """The access of a command, at every level of isolation except "none"."""

    #: "on" or "off".
    network: str
    #: Directories below which it may write.
    writable: Sequence[str]
    #: Files and directories that it may read, in addition to those of the system and the writable ones.
    readable: Sequence[str]
    #: Absolute paths that it does not get at.
    hidden: Sequence[str]


class StartOptions(TypedDict, total=False):
    """How to run a command. The server's defaults apply to missing options."""

    #: 1 to 128 bytes of letters, digits, ".", "_" and "-".
    id: str
    #: Sent as the header Idempotency-Key, from which the server derives the id if there is none.
    idempotency_key: str
    #: In place of an id: the same request attaches while the command runs and after it has exited with 0, and starts it again
    #: after any other end.
    key: str
    #: Groups executions.
    session: str
    #: The shell of a command that is a text: "sh", the default, or "bash".
    shell: str
    #: An interpreter, for example "python", that runs `code`; in place of a command.
    language: str
    code: str
    #: Runs `code` in this interpreter, in place of a command; docs/interpreters.md has what goes with it.
    interpreter: str
    #: With `interpreter`, in place of `code`: forgets all that was declared.
    clear: bool
    #: Patterns of files below `cwd` that are kept with the execution at its end.
    artifacts: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    #: Further variables, with the names of secrets that the server has: the command gets the values, and nobody else.
    secrets: Mapping[str, str]
    #: Has the server replace the values of `secrets` in the output by "***".
    mask_secrets: bool
    #: What the command reads; `stdin_open` keeps it open for Reprise.stdin.
    stdin: str | bytes
    stdin_open: bool
    #: Runs the command in a terminal. Its output is all on stdout.
    tty: Terminal
    #: Ends the run; `grace` is the time between TERM and KILL.
    timeout: Duration
    grace: Duration
    #: Cancels the run when somebody has followed it and nobody has for a while.
    kill_on_disconnect: bool
    labels: Mapping[str, str]
    limits: Limits
    retention: Retention
    isolation: str
    access: Access
    #: The user of the server's machine that the command runs as. It needs the scope "admin", and a server that is root.
    user: str
    #: For Reprise.run: holds the output of the command back while there is much to read, so that nothing that was not read is
    #: trimmed. A program that takes nothing for this long is waited for no more. At most 5 minutes. It has no effect where the
    #: server chooses the id: with a `key`, and with an `idempotency_key` without `id`.
    hold: Duration
