"""Requests of an operator's own httpx client are recorded, and a replay answers them without the system."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from processes import until

from opsdk import ObjectMeta
from opsdk.api.core.v1 import Secret
from opsdk.cluster.cluster import Cluster
from opsdk.engine.replay.run import OperatorReplay
from opsdk.engine.replay.timeline import Timeline
from opsdk.errors import UsageError
from opsdk.recording.boundary import BOUNDARY, ExternalCall
from opsdk.recording.httpx_transport import RecordedTransport
from opsdk.recording.reading import load_recording
from opsdk.rest.load import load_config
from tests.recording.recorded_processes import RecordedOperator, load_operator, server

OPERATOR = """
import os
import httpx
from opsdk import Context, ObjectMeta, Operator
from opsdk.api.core.v1 import ConfigMap, Secret
from opsdk.recording.httpx_transport import RecordedTransport

operator = Operator("copier")
client = httpx.AsyncClient(transport=RecordedTransport(name="dns"))

@operator.reconciler(Secret, owns=[ConfigMap])
async def reconcile(secret: Secret, ctx: Context) -> None:
    name = secret.metadata.name
    try:
        await client.get("http://127.0.0.1:1/refused")
    except httpx.ConnectError as error:
        reason = type(error).__name__
    response = await client.post("SERVICE/records?key=query-secret", json={"name": name}, auth=("me", "header-secret"))
    await ctx.apply(ConfigMap(metadata=ObjectMeta(name=name), data={"record": response.text, "reason": reason}))

if __name__ == "__main__":
    operator.main()
"""
BODY = "record of " * 400


class RecordBoundary:
    """Keeps the results of calls as a recording does, and then returns them instead of calling.

    Attributes:
        kept: name, arguments and result of each call.
        is_replay: return what is kept.
    """

    listens = True

    def __init__(self) -> None:
        self.kept: list[tuple[str, tuple[Any, ...], bytes]] = []
        self.is_replay = False

    async def call(self, call: ExternalCall) -> Any:
        """Return the result of a call."""
        if self.is_replay:
            return msgspec.msgpack.decode(self.kept.pop(0)[2], type=call.returns)
        result = await call.run()
        self.kept.append((call.name, call.arguments, msgspec.msgpack.encode(result)))
        return result


@contextmanager
def boundary() -> Iterator[RecordBoundary]:
    """Stand between a client and its system."""
    recorded = RecordBoundary()
    token = BOUNDARY.set(recorded)  # type: ignore[arg-type]
    try:
        yield recorded
    finally:
        BOUNDARY.reset(token)


def _answer(request: httpx.Request) -> httpx.Response:
    if request.url.path == "/refused":
        raise httpx.ReadTimeout("too late", request=request)
    headers = [("set-cookie", "session=cookie-secret"), ("x-two", "a"), ("x-two", "b")]
    return httpx.Response(201, headers=headers, json={"sent": request.content.decode()}, request=request)


async def _asked() -> tuple[int, str, list[str], str]:
    transport = RecordedTransport(name="dns", transport=httpx.MockTransport(_answer))
    async with httpx.AsyncClient(base_url="https://me:url-secret@dns.test", transport=transport) as client:
        response = await client.post("/records?key=query-secret", content="body-secret")
        with pytest.raises(httpx.ReadTimeout, match="too late"):
            await client.get("/refused")
    return response.status_code, response.text, response.headers.get_list("x-two"), str(response.request.url)


async def test_a_replayed_response_is_that_of_the_system() -> None:
    """Status, headers, body and errors; no request is sent."""
    with boundary() as recorded:
        first = await _asked()
        assert [name for name, _, _ in recorded.kept] == ["dns.POST", "dns.GET"]
        recorded.is_replay = True
        assert await _asked() == first
        assert recorded.kept == []


async def test_a_recording_has_no_credentials_of_requests() -> None:
    """Those in the address, the query, headers and bodies, and cookies."""
    with boundary() as recorded:
        await _asked()
    (name, arguments, result), _ = recorded.kept
    assert (name, arguments) == ("dns.POST", ("https://dns.test/records",))
    text = repr((arguments, result))
    assert "body-secret" in text  # the answer of the system has it
    assert not [word for word in ("url-secret", "query-secret", "cookie-secret") if word in text]


async def test_without_a_recording_a_response_is_a_stream() -> None:
    """It passes through as it is, with its cookies."""
    transport = RecordedTransport(name="dns", transport=httpx.MockTransport(_answer))
    async with httpx.AsyncClient(transport=transport) as client:
        response = await client.post("https://dns.test/records")
    assert response.cookies["session"] == "cookie-secret"


def test_a_system_has_a_name() -> None:
    """Without one, a replay could not tell two systems apart."""
    with pytest.raises(UsageError, match="needs a name"):
        RecordedTransport(name="")


class _Service(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        """Answer with a long text."""
        self.rfile.read(int(self.headers["content-length"]))
        body = BODY.encode()
        self.send_response(201)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@contextmanager
def service() -> Iterator[str]:
    """Run a system outside of Kubernetes; yields its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Service) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_address[1]}"
        finally:
            running.shutdown()
            thread.join()


@pytest.mark.slow
@pytest.mark.e2e
def test_a_process_with_an_own_client_is_replayed(tmp_path: Path) -> None:
    """Each request is identical, when the system is gone."""
    with service() as address, server(tmp_path) as kubeconfig:
        text = OPERATOR.replace("SERVICE", address)
        with RecordedOperator(tmp_path, kubeconfig, text) as recorded:
            asyncio.run(_create_secret(kubeconfig))
            until(lambda: recorded.has_written("configmaps/db"), recorded.log)
            recorded.end(signal.SIGTERM)
    assert "the recording does not have" not in recorded.log.read_text()
    timeline = Timeline(load_recording(recorded.recordings).records)
    with OperatorReplay(timeline, lambda: load_operator(recorded, timeline)) as replay:
        outcome = replay.run()
    assert outcome.is_identical, [*map(str, outcome.divergences[:3]), *outcome.unsent[:3]]
    files = b"".join(path.read_bytes() for path in recorded.recordings.iterdir())
    assert b"query-secret" not in files
    assert b"header-secret" not in files


async def _create_secret(kubeconfig: Path) -> None:
    async with Cluster(load_config(kubeconfig=kubeconfig)) as cluster:
        await cluster.uncached.create(Secret(metadata=ObjectMeta(name="db", namespace="default")))
