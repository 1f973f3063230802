"""Signing in and out: cookies and origins."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from normankit import NormanKit

from opsdk.http.server.request import HttpRequest, Query
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.server.server import NormanOptions, NormanServer
from opsdk.norman.tokens import token_of
from opsdk.norman.web.page import WebPage


async def test_a_login_and_a_logout_come_from_the_own_page() -> None:
    """Sign-in and sign-out are rejected from another origin and by GET."""
    kit = NormanKit(NormanServer(SchemaRegistry(), options=NormanOptions(page=WebPage())))
    for name in ("login", "logout"):
        for headers in ({"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "same-site"}):
            assert (await kit.raw("POST", f"/norman-ui/{name}", b"token=x", headers)).status == 403
    response = await kit.raw("GET", "/norman-ui/logout")
    assert (response.status, "set-cookie" in dict(response.headers)) == (405, False)
    long = await kit.raw("POST", "/norman-ui/login", b"token=" + b"x" * 70_000)
    assert long.status == 422


@pytest.mark.parametrize(
    ("scheme", "headers", "name"),
    [
        ("http", {}, "norman-token"),
        ("https", {}, "__Host-norman-token"),
        ("http", {"x-forwarded-proto": "https"}, "__Host-norman-token"),
        ("http", {"origin": "https://example.com"}, "__Host-norman-token"),  # a proxy that sends no header
    ],
)
async def test_the_cookie_of_the_login_is_secure_over_https(scheme: str, headers: dict[str, str], name: str) -> None:
    """Also where a proxy ends TLS; then the plain cookie, which a page without TLS can set, does not count."""
    kit = NormanKit(NormanServer(SchemaRegistry(), options=NormanOptions(page=WebPage())))
    form = {"content-type": "application/x-www-form-urlencoded", **headers}
    response = await kit.raw("POST", "/norman-ui/login", b"token=a/b", form, scheme)
    cookie = dict(response.headers)["set-cookie"]
    secure = "" if name == "norman-token" else "; Secure"
    assert cookie == f"{name}=a%2Fb; Path=/; HttpOnly; SameSite=Strict{secure}"
    out = dict((await kit.raw("POST", "/norman-ui/logout", b"", headers, scheme)).headers)["set-cookie"]
    assert out == f"{name}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0{secure}"
    planted = {"cookie": f"norman-token=planted; {name}=own", **headers}
    request = HttpRequest("GET", "/", Query(), planted, receive=asyncio.Event().wait, scheme=scheme)  # type: ignore[arg-type]
    assert token_of(request) == ("planted" if name == "norman-token" else "own")
    only_planted = dataclasses.replace(request, headers={"cookie": "norman-token=planted", **headers})
    assert token_of(only_planted) == ("planted" if name == "norman-token" else "")
