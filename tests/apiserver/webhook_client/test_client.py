"""Calls to webhooks over real sockets and TLS, and the messages of failures."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path

import pytest
from http_servers import Pair, Server, always, answer, in_turn, listening, make_ca, port_of
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.webhook_client import client as module
from opsdk.apiserver.webhook_client.client import WebhookCallError, WebhookClient
from opsdk.apiserver.webhook_client.endpoint import ClientConfigError, target_of
from opsdk.apiserver.webhook_client.go_errors import media_fault, refusal

pytestmark = pytest.mark.realtime
OK = answer(200, b'{"ok":true}', Content_Type="application/json")


def bundle(pair: Pair) -> str:
    """For a ``caBundle``."""
    return base64.b64encode(pair.cert).decode()


async def test_one_kept_connection_serves_many_calls(tmp_path: Path) -> None:
    """A call is a POST of JSON with its timeout in the query, on a reused connection."""
    ca = make_ca()
    tls = ca.issue("hook", "127.0.0.1").server_context(tmp_path)
    async with Server(always(OK), tls) as server, WebhookClient() as client:
        target = target_of({"url": f"{server.host}/check/", "caBundle": bundle(ca)})
        for _ in range(3):
            assert await client.post(target, {"a": 1}, timeout=7) == {"ok": True}
        assert server.accepted == 1
        request = server.seen[0]
        assert (request.method, request.target) == ("POST", "/check?timeout=7s")
        assert (json.loads(request.body), request.header("content-type")) == ({"a": 1}, "application/json")
        await client.aclose()


async def test_a_bundle_may_hold_the_servers_own_certificate(tmp_path: Path) -> None:
    """A caBundle may contain the server's own certificate, signed by any CA."""
    pair = make_ca().issue("hook", "127.0.0.1")
    async with Server(always(OK), pair.server_context(tmp_path)) as server, WebhookClient() as client:
        target = target_of({"url": server.host, "caBundle": bundle(pair)})
        assert await client.post(target, {}, timeout=5) == {"ok": True}
        await client.aclose()


async def test_a_ca_with_basic_constraints_only_is_trusted(tmp_path: Path) -> None:
    """Go's API server accepts such a ``caBundle``; Python 3.13's default context requires key identifiers."""
    ca = make_ca(minimal=True)
    tls = ca.issue("hook", "127.0.0.1").server_context(tmp_path)
    async with Server(always(OK), tls) as server, WebhookClient() as client:
        target = target_of({"url": server.host, "caBundle": bundle(ca)})
        assert await client.post(target, {}, timeout=5) == {"ok": True}
        await client.aclose()


async def test_a_connection_that_was_closed_meanwhile_is_no_failure(tmp_path: Path) -> None:
    """A pooled connection that the server closed is replaced by a new one."""
    ca = make_ca()
    tls = ca.issue("hook", "127.0.0.1").server_context(tmp_path)
    async with Server(in_turn(OK, None, OK), tls) as server, WebhookClient() as client:
        target = target_of({"url": server.host, "caBundle": bundle(ca)})
        await client.post(target, {}, timeout=5)
        assert await client.post(target, {}, timeout=5) == {"ok": True}
        assert server.accepted == 2
        await client.aclose()


async def test_failures_read_as_those_of_go(tmp_path: Path) -> None:
    """Connection and TLS failures have the texts of Go's HTTP client."""
    ca, other = make_ca(), make_ca("other")

    async def said(server_ca: Pair, name: str, data: bytes | None, *, trusted: Pair) -> str:
        context = server_ca.issue("hook", name).server_context(tmp_path)
        async with Server(in_turn(data), context) as server, WebhookClient() as client:
            target = target_of({"url": f"https://127.0.0.1:{server.port}/x", "caBundle": bundle(trusted)})
            with pytest.raises(WebhookCallError) as caught:
                await client.post(target, {}, timeout=5)
            await client.aclose()
            return str(caught.value).replace(str(server.port), "PORT")

    lead = 'Post "https://127.0.0.1:PORT/x?timeout=5s": '
    untrusted = f"{lead}tls: failed to verify certificate: x509: certificate signed by unknown authority"
    assert await said(ca, "127.0.0.1", OK, trusted=other) == untrusted
    wrong = await said(ca, "10.9.8.7", OK, trusted=ca)
    assert wrong.startswith(f"{lead}tls: failed to verify certificate: x509: cannot validate certificate for 127.0.0.1")
    assert await said(ca, "127.0.0.1", None, trusted=ca) in {f"{lead}EOF", f"{lead}read: connection reset by peer"}
    async with WebhookClient() as client:
        with pytest.raises(WebhookCallError, match=r"dial tcp 127\.0\.0\.1:1: connect: connection refused"):
            await client.post(target_of({"url": "https://127.0.0.1:1/x"}), {}, timeout=5)
        with pytest.raises(WebhookCallError, match='service "s" not found'):
            await client.post(target_of({"service": {"name": "s", "namespace": "n"}}), {}, timeout=5)


async def test_a_server_without_tls_has_an_error_of_its_own() -> None:
    """A server that responds to the handshake with plain HTTP gives a specific error."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with listening(serve) as server, WebhookClient() as client:
        port = port_of(server)
        with pytest.raises(WebhookCallError, match="http: server gave HTTP response to HTTPS client"):
            await client.post(target_of({"url": f"https://127.0.0.1:{port}"}), {}, timeout=5)


async def test_an_answer_is_read_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of a webhook's response is limited."""
    monkeypatch.setattr(module, "MAX_ANSWER", 1000)
    ca = make_ca()
    tls = ca.issue("hook", "127.0.0.1").server_context(tmp_path)
    async with Server(always(answer(200, b"x" * 100_000)), tls) as server, WebhookClient() as client:
        with pytest.raises(WebhookCallError, match="response body too large"):
            await client.post(target_of({"url": server.host, "caBundle": bundle(ca)}), {}, timeout=5)
        await client.aclose()


async def test_a_service_is_called_where_it_resolves_to_by_its_own_name(tmp_path: Path) -> None:
    """A Service is called at its resolved address, with a certificate for ``name.namespace.svc``."""
    ca = make_ca()
    tls = ca.issue("hook", "s.n.svc").server_context(tmp_path)
    places: list[int] = []
    async with (
        Server(always(OK), tls) as server,
        WebhookClient(resolve=lambda _, __, ___: ("127.0.0.1", places[0])) as client,
    ):
        places.append(server.port)
        config = {"service": {"name": "s", "namespace": "n", "path": "/p"}, "caBundle": bundle(ca)}
        assert await client.post(target_of(config), {}, timeout=5) == {"ok": True}
        assert server.seen[0].header("host") == "s.n.svc:443"
        await client.aclose()


@pytest.mark.parametrize("text", ["###", base64.b64encode(b"no certificate").decode()])
def test_an_invalid_bundle_is_an_error_before_the_call(text: str) -> None:
    """An invalid caBundle is an error before any connection."""
    with pytest.raises(ClientConfigError, match="unable to parse bytes as PEM block"):
        target_of({"url": "https://a", "caBundle": text})


@pytest.mark.parametrize(
    ("status", "kind", "body", "why"),
    [
        (
            500,
            "application/json",
            b"{}",
            'an error on the server ("unknown") has prevented the request from succeeding',
        ),
        (500, "text/plain", b" oops\n", 'an error on the server ("oops") has prevented the request from succeeding'),
        (404, "text/plain", b"x", "the server could not find the requested resource"),
        (302, "", b"", "the server responded with the status code 302 but did not return more information"),
        (403, "text/plain", b"go away", "go away"),
        (500, "application/json", b'{"kind":"Status","apiVersion":"v1","status":"Failure","message":"m"}', "m"),
    ],
)
def test_error_responses_have_client_gos_text(status: int, kind: str, body: bytes, why: str) -> None:
    """An error response has the text of client-go."""
    assert refusal(status, kind, body) == why


@given(st.text(alphabet="/ab", max_size=8))
def test_a_path_has_one_slash_in_front_and_none_behind(path: str) -> None:
    """A webhook path is normalized: one leading slash, no empty segments."""
    created = target_of({"service": {"name": "s", "namespace": "n", "path": path}}).path
    assert created.startswith("/")
    assert "//" not in created
    assert created == "/" or not created.endswith("/")


@pytest.mark.parametrize(
    ("content_type", "fault"),
    [
        ("", ""),
        ("application/json", ""),
        ("text; charset=x", ""),
        (";;", "mime: no media type"),
        ("a b", "mime: unexpected content after media type"),
        ("a/", "mime: expected token after slash"),
        ("/b", "mime: expected token after slash"),
        ("a/b c", "mime: unexpected content after media subtype"),
    ],
)
def test_a_media_type_must_be_one(content_type: str, fault: str) -> None:
    """An invalid media type has Go's error text; a missing one is accepted."""
    assert media_fault(content_type) == fault
