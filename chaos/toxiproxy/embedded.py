"""A Toxiproxy server of ours in a thread: nothing to install, and all that it leaves to chance comes from a seed.

One suite holds it to what the real one does (tests/toxiproxy/test_conformance.py). Where they differ on purpose: the
real one takes a `-seed` and does not use it (2.12); a slicer whose pieces can never be small enough ends it, and not
ours; what is wrong with a request's JSON is worded differently; ours keeps no metrics.
"""

from __future__ import annotations

import asyncio
import json
import threading
from http import HTTPStatus

from chaos.toxiproxy.api import Answer, Api

HOST = "127.0.0.1"
MAX_HEAD_BYTES = 1 << 16
MAX_BODY_BYTES = 1 << 20  # a request is some hundred bytes
STOP_SECONDS = 10.0  # cutting connections takes milliseconds


class Embedded:
    """A running server; its interface listens at *address* on 127.0.0.1.

    Args:
        seed: of the toxics' randomness: jitter, slices, and which connections a toxicity below 1 spares.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.address = ""
        self._loop = asyncio.new_event_loop()
        self._ready, self._stopping = threading.Event(), asyncio.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="toxiproxy", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise self._failure

    def close(self) -> None:
        """Cut all connections and free all ports. May be called twice."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            self._failure = error
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        api = Api(self._seed)
        clients: set[asyncio.Task[None]] = set()

        async def attend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            clients.add(task)
            try:
                await _attend(api, reader, writer)
            except asyncio.CancelledError:
                pass  # the server ends; a client that keeps its connection is no reason to wait
            finally:
                clients.discard(task)
                writer.close()

        server = await asyncio.start_server(attend, HOST, 0, limit=MAX_HEAD_BYTES)
        self.address = "{}:{}".format(*server.sockets[0].getsockname())
        self._ready.set()
        await self._stopping.wait()
        server.close()
        await api.close()
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def _attend(api: Api, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one kept-alive connection."""
    try:
        while request := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
            first, *lines = request.strip().split("\r\n")
            headers = {
                name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
            }
            method, path, _ = first.split(" ", 2)
            length = int(headers.get("content-length", "0"))
            if not 0 <= length <= MAX_BODY_BYTES:
                return
            body = await reader.readexactly(length)
            writer.write(_rendered(await api.answer(method, path, body, headers.get("user-agent", ""))))
            await writer.drain()
            if headers.get("connection", "").lower() == "close":
                return
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ValueError):
        return


def _rendered(answer: Answer) -> bytes:
    """Return the bytes of a response."""
    kind, body = "application/json", b""
    if isinstance(answer.body, str):
        kind, body = "text/plain; charset=utf-8", answer.body.encode()
    elif answer.body is not None:
        body = json.dumps(answer.body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}", f"Content-Length: {len(body)}"]
    if body:
        lines.append(f"Content-Type: {kind}")
    return "\r\n".join([*lines, "", ""]).encode() + body
