"""Redirects and retries of calls, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from opsdk.apiserver.webhook_client.client import WebhookCallError, WebhookClient
from opsdk.apiserver.webhook_client.endpoint import target_of
from opsdk.apiserver.webhook_client.redirects import MAX_HOPS, MAX_RETRIES
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, json_response

TARGET = target_of({"url": "https://hook.example/start"})


class Hooks:
    """Answers by path: a status with headers, or the last word."""

    def __init__(self, **pages: tuple[int, str, str]) -> None:
        self.pages = pages
        self.asked: list[tuple[str, str, bytes]] = []
        self.app = asgi(self.handle)

    async def handle(self, request: HttpRequest) -> HttpResponse:
        """One request."""
        name = request.path.strip("/")
        self.asked.append((request.method, f"{request.header('host')}/{name}", await request.body(1000)))
        if name not in self.pages:
            return json_response({"ok": name})
        status, header, value = self.pages[name]
        return HttpResponse(status, [(header, value)], b"")

    async def call(self, seconds: int = 10) -> Any:
        """Return the result."""
        async with WebhookClient(apps={"hook.example": self.app, "other.example": self.app}) as client:
            return await client.post(TARGET, {"a": 1}, timeout=seconds)


@pytest.mark.parametrize("status", [307, 308])
@pytest.mark.parametrize("location", ["/end", "https://other.example/end?x=1"])
async def test_a_redirect_repeats_method_and_body(status: int, location: str) -> None:
    """A 307 or 308 repeats method and body at the new address."""
    hooks = Hooks(start=(status, "location", location))
    assert await hooks.call() == {"ok": "end"}
    host = "other.example" if "other" in location else "hook.example"
    assert hooks.asked == [("POST", "hook.example/start", b'{"a":1}'), ("POST", f"{host}/end", b'{"a":1}')]


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_older_redirects_forget_the_question(status: int) -> None:
    """After a 301, 302 or 303, the second request is a GET without a body."""
    hooks = Hooks(start=(status, "location", "/end"))
    await hooks.call()
    assert hooks.asked[1] == ("GET", "hook.example/end", b"")


async def test_loops_end() -> None:
    """The client follows at most ten redirects."""
    hooks = Hooks(start=(307, "location", "/start"))
    with pytest.raises(WebhookCallError, match=r'^Post "/start": stopped after 10 redirects$'):
        await hooks.call()
    assert len(hooks.asked) == MAX_HOPS


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("", "the server responded with the status code 307 but did not return more information"),
        ("http://other.example/x", 'Post "http://other.example/x": redirected to what is not an https address'),
        ("https://h:x/", 'Post "https://hook.example/start?timeout=10s": failed to parse Location header'),
    ],
)
async def test_redirects_to_nowhere_are_reported(location: str, why: str) -> None:
    """The error of a redirect to an invalid address says what is wrong with it."""
    with pytest.raises(WebhookCallError) as refused:
        await Hooks(start=(307, "location", location)).call()
    assert str(refused.value).startswith(why)


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_retry_after_repeats_the_call(status: int) -> None:
    """A response with Retry-After repeats the call a limited number of times, and the last response counts."""
    hooks = Hooks(start=(status, "retry-after", "2"))
    began = asyncio.get_running_loop().time()
    with pytest.raises(WebhookCallError, match="server"):
        await hooks.call(60)
    assert len(hooks.asked) == 1 + MAX_RETRIES
    assert asyncio.get_running_loop().time() - began == 2 * MAX_RETRIES
    hooks.asked.clear()
    hooks.pages["start"] = (status, "retry-after", "soon")
    with pytest.raises(WebhookCallError):
        await hooks.call()
    assert len(hooks.asked) == 1


async def test_coming_again_has_an_end() -> None:
    """The timeout of a call covers all its retries."""
    hooks = Hooks(start=(429, "retry-after", "4"))
    began = asyncio.get_running_loop().time()
    reason = r'^Post "https://hook.example/start\?timeout=10s": context deadline exceeded$'
    with pytest.raises(WebhookCallError, match=reason):
        await hooks.call()
    assert asyncio.get_running_loop().time() - began == 10
    assert len(hooks.asked) == 3


async def test_a_later_success_ends_the_retries() -> None:
    """The first response without Retry-After is the result."""
    hooks = Hooks(start=(503, "retry-after", "1"))
    calling = asyncio.ensure_future(hooks.call(30))
    await asyncio.sleep(2.5)
    hooks.pages.clear()
    assert await calling == {"ok": "start"}
    assert len(hooks.asked) == 4
