"""Tokens of an OpenID Connect provider, from a real server with TLS."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qs

import pytest
from http_servers import Seen, Server, answer, make_ca

from opsdk.aio.clock import utc_now
from opsdk.apimachinery.serializer.yaml_documents import read_documents
from opsdk.apimachinery.serializer.yaml_writer import write_yaml
from opsdk.errors import ConfigError, OpsdkError, TransportError, UnauthorizedError
from opsdk.recording.boundary import BOUNDARY, Boundary
from opsdk.rest.config import OidcConfig, RestConfig
from opsdk.rest.credentials import credentials_for
from opsdk.rest.kubeconfig import config_from_files
from opsdk.rest.oidc import OidcCredentials, parse_tokens, read_expiry
from opsdk.rest.transport import fetch
from opsdk.structured_merge.value import JsonObject


def jwt(seconds: float, name: str = "a") -> str:
    """A token that ends so many seconds from now. Nobody verifies its signature here."""
    claims = {"exp": int(utc_now().timestamp() + seconds), "sub": name}
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.x"


class Provider:
    """Renews tokens; each refresh token works once."""

    def __init__(self) -> None:
        self.refresh_token = "r0"
        self.bodies: list[dict[str, list[str]]] = []
        self.answer: bytes | None = None
        self.port = 0

    async def handle(self, seen: Seen, writer: asyncio.StreamWriter) -> None:
        """Answer discovery and renewals."""
        if seen.target == "/realm/.well-known/openid-configuration":
            metadata = {"token_endpoint": f"https://127.0.0.1:{self.port}/realm/token?a=b"}
            writer.write(answer(body=json.dumps(metadata).encode()))
            return
        assert seen.target == "/realm/token?a=b"
        body = parse_qs(seen.body.decode())
        self.bodies.append(body)
        if self.answer is not None:
            writer.write(self.answer)
        elif body["refresh_token"] != [self.refresh_token]:
            writer.write(answer(400, b'{"error":"invalid_grant"}'))
        else:
            self.refresh_token = f"r{len(self.bodies)}"
            renewed = {"id_token": jwt(60, self.refresh_token), "refresh_token": self.refresh_token}
            writer.write(answer(body=json.dumps(renewed).encode()))


@asynccontextmanager
async def providing(folder: Path) -> AsyncIterator[tuple[Provider, OidcConfig]]:
    """A running provider, and its configuration."""
    ca, provider = make_ca(), Provider()
    tls = ca.issue("idp", "127.0.0.1").server_context(folder)
    async with Server(provider.handle, tls=tls) as server:
        provider.port = server.port
        yield (
            provider,
            OidcConfig(
                issuer_url=f"{server.host}/realm/",
                client_id="kubectl",
                client_secret="s",
                refresh_token="r0",
                ca_data=ca.cert,
            ),
        )


def kubeconfig(path: Path, oidc: OidcConfig, **tokens: str) -> JsonObject:
    """Write a kubeconfig, and return it."""
    config = {
        "idp-issuer-url": oidc.issuer_url,
        "client-id": oidc.client_id,
        "client-secret": oidc.client_secret,
        "idp-certificate-authority-data": base64.b64encode(oidc.ca_data).decode(),
        **tokens,
    }
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "https://c"}}],
        "users": [
            {"name": "other", "user": {"token": "t"}},
            {"name": "u", "user": {"auth-provider": {"name": "oidc", "config": config}}},
        ],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(write_yaml(document, sort_keys=False))
    return document


def tokens_in(path: Path) -> tuple[str, str]:
    """Return the tokens of a kubeconfig."""
    [document] = read_documents(path.read_bytes())
    config: Any = document["users"][1]["user"]["auth-provider"]["config"]  # type: ignore[index, call-overload]
    return config["id-token"], config["refresh-token"]


async def test_a_token_is_used_until_it_expires() -> None:
    """The provider is not asked before; ten seconds before its end a token counts as expired."""
    token = jwt(60)
    source = credentials_for(
        RestConfig(oidc=OidcConfig(issuer_url="https://idp", client_id="k", id_token=token)), fetch
    )
    assert isinstance(source, OidcCredentials)
    assert source.current() == await source.headers() == {"Authorization": f"Bearer {token}"}
    assert not source.invalidate(0)
    await asyncio.sleep(50)
    assert source.current() is None
    with pytest.raises(UnauthorizedError, match="expired, and there is no refresh-token: log in again"):
        await source.headers()


async def test_renewed_tokens_are_used_and_saved(tmp_path: Path) -> None:
    """All callers wait for one renewal; the next process begins with the tokens of the last one."""
    path = tmp_path / "config"
    async with providing(tmp_path) as (provider, oidc):
        before = kubeconfig(path, oidc, **{"id-token": jwt(-1), "refresh-token": "r0"})
        source = credentials_for(config_from_files([path]), fetch)
        headers = await asyncio.gather(*(source.headers() for _ in range(5)))
        assert len(provider.bodies) == 1
        assert provider.bodies[0] == {
            "grant_type": ["refresh_token"],
            "refresh_token": ["r0"],
            "client_id": ["kubectl"],
            "client_secret": ["s"],
        }
        token, refresh = tokens_in(path)
        assert headers == [{"Authorization": f"Bearer {token}"}] * 5
        assert refresh == "r1"
        assert path.stat().st_mode & 0o777 == 0o600
        [document] = read_documents(path.read_bytes())
        before["users"][1]["user"]["auth-provider"]["config"] |= {"id-token": token, "refresh-token": "r1"}
        assert document == before
        assert source.generation == 1
        again = credentials_for(config_from_files([path]), fetch)
        assert await again.headers() == headers[0]
        await asyncio.sleep(60)
        assert (await again.headers())["Authorization"] == f"Bearer {tokens_in(path)[0]}"
        assert tokens_in(path)[1] == "r2"


async def test_no_recording_has_the_exchange(tmp_path: Path) -> None:
    """Its bodies have tokens."""
    async with providing(tmp_path) as (provider, oidc):
        outer = BOUNDARY.set(cast("Boundary", object()))
        try:
            await OidcCredentials(oidc, fetch).headers()
        finally:
            BOUNDARY.reset(outer)
        assert len(provider.bodies) == 1


async def test_tokens_that_cannot_be_saved_are_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A warning says what follows."""
    async with providing(tmp_path) as (_, oidc):
        source = OidcCredentials(
            OidcConfig(**{**oidc_fields(oidc), "kubeconfig": str(tmp_path / "none"), "user": "u"}), fetch
        )
        assert (await source.headers())["Authorization"].startswith("Bearer e30.")
    assert "the next program may have to log in" in caplog.text


def oidc_fields(oidc: OidcConfig) -> dict[str, Any]:
    """Return the fields of a configuration."""
    return {name: getattr(oidc, name) for name in oidc.__struct_fields__}


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (answer(400, b'{"error":"invalid_grant"}'), "does not renew the token: 400 invalid_grant: log in again"),
        (answer(500, b"<html>"), "does not renew the token: 500"),
        (answer(200, b"[]"), "something else than tokens"),
        (answer(200, b'{"access_token":"t"}'), "renews no id_token"),
        (answer(200, b'{"id_token":"secret"}'), "no JSON Web Token"),
    ],
)
async def test_a_refusal_is_an_error_of_all_callers(response: bytes, words: str, tmp_path: Path) -> None:
    """For a moment: then the provider is asked again. No message has a token."""
    async with providing(tmp_path) as (provider, oidc):
        provider.answer, source = response, OidcCredentials(oidc, fetch)
        for _ in range(3):
            with pytest.raises(OpsdkError, match=words) as caught:
                await source.headers()
            assert "secret" not in str(caught.value)
        assert len(provider.bodies) == 1
        await asyncio.sleep(1)
        provider.answer = None
        assert await source.headers()


async def test_a_provider_that_is_not_there(tmp_path: Path) -> None:
    """It is the error of the connection, and a wrong address is named."""
    async with providing(tmp_path) as (_, oidc):
        fields = oidc_fields(oidc)
    with pytest.raises(TransportError):
        await OidcCredentials(OidcConfig(**fields), fetch).headers()
    async with providing(tmp_path) as (provider, _):
        other = {**fields, "issuer_url": f"https://127.0.0.1:{provider.port}/realm"}
        with pytest.raises(TransportError):  # another CA
            await OidcCredentials(OidcConfig(**other), fetch).headers()


@pytest.mark.parametrize("token", ["", "a", "a.b.c", "a.e30.c", "a.eyJleHAiOiJ4In0.c", "\xff.\xff"])
def test_what_is_no_token(token: str) -> None:
    """The message does not have it."""
    with pytest.raises(ConfigError, match="log in again") as caught:
        read_expiry(token)
    assert not token or repr(token) not in str(caught.value)


def test_a_refresh_token_may_stay() -> None:
    """A provider need not send a new one."""
    assert parse_tokens(200, b'{"id_token":"i"}', "https://idp").refresh_token == ""


def test_secrets_are_not_shown() -> None:
    """In the configuration's text."""
    oidc = OidcConfig(issuer_url="https://idp", client_id="k", client_secret="hidden", id_token="hidden")
    assert "hidden" not in repr(RestConfig(oidc=oidc)) + repr(oidc) + repr(
        parse_tokens(200, b'{"id_token":"hidden"}', "")
    )
