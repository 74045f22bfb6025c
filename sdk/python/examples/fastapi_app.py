#!/usr/bin/env python3
"""A FastAPI service that starts jobs, and streams their output. A page may also follow a job from the Reprise server itself, by
nothing but EventSource and a ticket. Needs fastapi; run it with `uvicorn fastapi_app:app`.
"""

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager

from fastapi import FastAPI, HTTPException
from fastapi.responses import StreamingResponse

from reprise import AsyncReprise, ProblemError


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncReprise() as client:
        app.state.reprise = client
        yield


app = FastAPI(lifespan=lifespan)


@app.post("/jobs/{name}")
async def start(name: str) -> dict[str, str]:
    """Starts a job, once however often it is asked for, and says where its events are."""
    client: AsyncReprise = app.state.reprise
    job = await client.start(["sh", "-c", "for i in 1 2 3; do echo step $i; sleep 1; done"], id=f"job.{name}")
    ticket = await client.tickets.create(execution=job.id, ttl="1h")
    return {"id": job.id, "events": client.url + ticket.events}


@app.get("/jobs/{name}/output")
async def output(name: str, offset: int = 0) -> StreamingResponse:
    """Streams what a job writes until its end, through lost connections to the Reprise server. Whoever was cut off asks for
    what comes after the bytes that there are."""
    client: AsyncReprise = app.state.reprise
    chunks = client.output(f"job.{name}", offset=offset, follow=True)
    try:
        first = await anext(chunks, b"")  # a job that is not there is an error, and not an answer that breaks
    except ProblemError as error:
        raise HTTPException(error.status, error.detail) from error

    async def rest() -> AsyncIterator[bytes]:
        async with aclosing(chunks):
            yield first
            async for chunk in chunks:
                yield chunk

    return StreamingResponse(rest(), media_type="application/octet-stream")


@app.get("/jobs/{name}")
async def wait(name: str) -> dict[str, object]:
    """Waits for the end of a job."""
    client: AsyncReprise = app.state.reprise
    try:
        output = "".join([event.text async for event in client.follow(f"job.{name}") if event.type == "stdout"])
        job = await client.show(f"job.{name}")
    except ProblemError as error:
        raise HTTPException(error.status, error.detail) from error
    return {"outcome": job.outcome, "exit_code": job.exit_code, "stdout": output}
