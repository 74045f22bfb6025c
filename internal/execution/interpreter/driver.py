"""The Python side of an interpreter: it runs code in one namespace, one request after the other.

A request on the control pipe has four fields, each ended by a NUL: what to do, its number, the mark of what is sent while
the code runs, and the code. Behind it comes the mark of the end, on a line of its own, which is read when the code has
ended: nothing that the code prints can be taken for the end. A frame is a NUL, a mark, a length, a colon and as many bytes.
"""


def drive():
    import ast
    import base64
    import builtins
    import inspect
    import io
    import json
    import linecache
    import os
    import signal
    import sys
    import traceback
    import types

    most_text, most_bundle, most_value, most_sources = 64 << 10, 512 << 10, 4 << 10, 100
    home, environ, script = os.getcwd(), dict(os.environ), os.path.abspath(__file__)
    control = os.fdopen(os.dup(0), "rb")
    kept = {1: os.dup(1), 2: os.dup(2)}
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.environ.setdefault("MPLBACKEND", "Agg")
    sys.argv, sys.path[0] = [""], ""
    main = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    names, self, sources = main.__dict__, os.getpid(), []
    state = {"running": False, "mark": b"", "loop": None}

    def write(fd, data):
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view):]

    def frame(fd, mark, text):
        if os.getpid() != self:  # a child that the code has forked has nothing to say of the run
            return
        data = text.encode("utf-8", "backslashreplace")
        write(kept[fd], b"\0" + mark + str(len(data)).encode() + b":" + data)

    def flush():
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass

    def field():
        parts = []
        while True:
            byte = control.read(1)
            if byte == b"":
                sys.exit(0)
            if byte == b"\0":
                return b"".join(parts)
            # What is buffered up to the NUL is taken at once.
            rest = control.peek()
            end = rest.find(b"\0")
            parts.append(byte + control.read(end if end >= 0 else len(rest)))

    def mend():
        """Opens again what the code before has closed."""
        for fd, name in ((1, "stdout"), (2, "stderr")):
            try:
                os.fstat(fd)
            except OSError:
                os.dup2(kept[fd], fd)
            stream = getattr(sys, name, None)
            if stream is None or getattr(stream, "closed", False):
                raw = io.BufferedWriter(io.FileIO(fd, "wb", closefd=False))
                setattr(sys, name, io.TextIOWrapper(raw, "utf-8", "backslashreplace", line_buffering=True))
                setattr(sys, "__%s__" % name, getattr(sys, name))

    def shorten(text, most):
        return text if len(text) <= most else text[:most] + "..."

    representations = (
        ("text/html", "_repr_html_"), ("text/markdown", "_repr_markdown_"), ("text/latex", "_repr_latex_"),
        ("image/svg+xml", "_repr_svg_"), ("image/png", "_repr_png_"), ("image/jpeg", "_repr_jpeg_"),
        ("application/json", "_repr_json_"),
    )

    def plain(value):
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        return value

    def bundle(value):
        """The value by MIME type, as a notebook asks for it. A representation that fails is left out."""
        mime = {"text/plain": shorten(repr(value), most_text)}
        if isinstance(value, type):
            return mime
        for kind, method in representations:
            try:
                found = getattr(value, method, None)
                found = found() if callable(found) else None
            except Exception:
                continue
            if isinstance(found, tuple):
                found = found[0]
            if found is not None:
                mime[kind] = plain(found)
        try:
            found = getattr(value, "_repr_mimebundle_", None)
            found = found() if callable(found) else None
        except Exception:
            found = None
        if isinstance(found, tuple):
            found = found[0]
        if isinstance(found, dict):
            mime.update((str(k), plain(v)) for k, v in found.items())
        return mime

    def send(kind, mime):
        room, omitted, taken = most_bundle, {}, {}
        for name, value in mime.items():
            try:
                size = len(json.dumps(value))
            except Exception:
                continue
            if size > room:
                omitted[name] = size
                continue
            room -= size
            taken[name] = value
        data = {"mime": taken}
        if omitted:
            data["omitted"] = omitted
        flush()
        frame(1, state["mark"], kind + " " + json.dumps(data))

    def display(value):
        send("display", bundle(value))

    def figures():
        plots = sys.modules.get("matplotlib.pyplot")
        if plots is None:
            return
        for number in plots.get_fignums():
            figure, png = plots.figure(number), io.BytesIO()
            figure.savefig(png, format="png", bbox_inches="tight")
            send("display", {"text/plain": repr(figure), "image/png": plain(png.getvalue())})
            plots.close(figure)

    def evaluate(tree, name, mode):
        code = compile(tree, name, mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        value = eval(code, names)
        if code.co_flags & inspect.CO_COROUTINE:
            import asyncio
            if state["loop"] is None:
                state["loop"] = asyncio.new_event_loop()
                asyncio.set_event_loop(state["loop"])
            value = state["loop"].run_until_complete(value)
        return value

    def execute(text, name):
        tree = ast.parse(text, name)
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr):
            last = ast.Expression(tree.body.pop().value)
        if tree.body:
            evaluate(tree, name, "exec")
        if last is not None:
            value = evaluate(last, name, "eval")
            if value is not None:
                names["_"] = value
                send("result", bundle(value))
        figures()

    def report(error, name):
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != name:
            trace = trace.tb_next
        try:
            value = str(error)
        except BaseException:
            value = "<the text of the error cannot be had>"
        try:
            told = traceback.TracebackException(type(error), error, trace)
            told.stack = traceback.StackSummary.from_list([at for at in told.stack if at.filename != script])
            lines = list(told.format())
        except BaseException:
            lines = [type(error).__name__ + "\n"]
        text = shorten("".join(lines), most_text)
        flush()
        frame(1, state["mark"], "exception " + json.dumps({
            "name": type(error).__name__, "value": shorten(value, most_value), "traceback": text.splitlines(),
        }))

    def interrupt(number, where):
        if state["running"]:
            raise KeyboardInterrupt

    def run(text, number):
        """Returns the exit code: 0, 1 after an error, 130 after an interruption."""
        name = "<run %s>" % number
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        sources.append(name)
        if len(sources) > most_sources:
            linecache.cache.pop(sources.pop(0), None)
        try:
            try:
                state["running"] = True
                execute(text, name)
            finally:
                state["running"] = False
            return 0
        except SystemExit:
            state["running"] = False
            if os.getpid() == self:
                raise
            return 0
        except BaseException as error:
            state["running"] = False
            report(error, name)
            return 130 if isinstance(error, KeyboardInterrupt) else 1

    def clear(mark):
        for fd, copy in kept.items():
            os.dup2(copy, fd)
        os.dup2(control.fileno(), 0)
        finish(mark, 0)
        os.chdir(home)
        os.execve(sys.executable, [sys.executable, "-X", "utf8", script], environ)

    def finish(mark, code):
        flush()
        frame(2, mark, "")
        frame(1, mark, "end %d" % code)

    builtins.display = display
    signal.signal(signal.SIGINT, interrupt)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace", line_buffering=True)
    while True:
        what, number, state["mark"], text = field(), field().decode(), field(), field()
        if what == b"clear":
            clear(control.readline().strip())
        signal.signal(signal.SIGINT, interrupt)
        mend()
        code = run(text.decode("utf-8", "replace"), number)
        flush()
        if os.getpid() != self:  # a child that the code has forked and let run on
            os._exit(code)
        finish(control.readline().strip(), code)


drive()
