"""Laws of `opsdk.rest.proxy`."""

from __future__ import annotations

import pytest

from opsdk.errors import ConfigError
from opsdk.rest.config import parse_host
from opsdk.rest.proxy import parse_proxy, proxy_for

ENV = {"HTTPS_PROXY": "http://proxy:3128", "http_proxy": "plain:80"}


@pytest.mark.parametrize(
    ("host", "no_proxy", "expected"),
    [
        ("https://api.example.com", "", "http://proxy:3128"),
        ("http://api.example.com", "", "http://plain:80"),
        ("https://api.example.com", "*", None),
        ("https://api.example.com", "example.com", None),
        ("https://api.example.com", ".example.com", None),
        ("https://example.com", ".example.com", "http://proxy:3128"),
        ("https://api.example.com", "*.example.com", None),
        ("https://badexample.com", "example.com", "http://proxy:3128"),
        ("https://api.example.com", "API.EXAMPLE.COM:443", None),
        ("https://api.example.com", "api.example.com:6443", "http://proxy:3128"),
        ("https://10.1.2.3:6443", "a, 10.0.0.0/8", None),
        ("https://11.1.2.3:6443", "10.0.0.0/8", "http://proxy:3128"),
        ("https://[fd00::1]:6443", "fd00::/8", None),
        ("https://10.1.2.3:6443", "10.1.2.3", None),
        ("https://localhost:6443", "", None),
        ("https://127.0.0.1:6443", "", None),
    ],
)
def test_environment_table(host: str, no_proxy: str, expected: str | None) -> None:
    """The environment's proxy is used unless NO_PROXY covers the host or it is this machine."""
    proxy = proxy_for(parse_host(host, tls=False), proxy_url="", env={**ENV, "NO_PROXY": no_proxy})
    assert (str(proxy) if proxy else None) == expected


def test_configured_proxy_wins() -> None:
    """A configured proxy is used even for this machine, whatever the environment says."""
    proxy = proxy_for(parse_host("https://localhost", tls=False), proxy_url="p:1", env={"NO_PROXY": "*"})
    assert str(proxy) == "http://p:1"


def test_password_is_sent_and_not_shown() -> None:
    """The user in a proxy URL becomes a header, and is in no repr."""
    proxy = parse_proxy("http://me:s%40crt@p:1")
    assert proxy.authorization == "Basic bWU6c0BjcnQ="
    assert "crt" not in f"{proxy} {proxy!r}"


@pytest.mark.parametrize("url", ["socks4://p:1", "ftp://p:1", "socks5://", "http://", "http://p:port"])
def test_unusable_proxies_are_refused(url: str) -> None:
    """A proxy that we cannot speak to is a configuration error."""
    with pytest.raises(ConfigError, match="proxy"):
        parse_proxy(url)
