"""A fake ``etcd`` binary: it reports healthy and names the data directory of the API server."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

from envtest.fake_binaries.flags import Flags
from envtest.fake_binaries.program import FakeProgram
from opsdk.errors import ConfigError
from opsdk.http.server.application import asgi
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, encode_json
from opsdk.http.server.server import ServeOptions, Tls, WebServer

KEEP = "/envtest/data-dir"
"""The path at which the fake kube-apiserver reads the data directory."""
_SWITCHES = frozenset({"unsafe-no-fsync", "client-cert-auth", "auto-tls", "peer-auto-tls", "version", "help"})
_OPTIONS = frozenset({
    "advertise-client-urls", "cert-file", "data-dir", "key-file", "listen-client-urls", "listen-peer-urls", "name",
})  # fmt: skip
_VERSION = {"etcdserver": "3.6.6", "etcdcluster": "3.6.0", "storage": "3.6.0"}


async def serve(flags: Flags, stack: AsyncExitStack) -> str:
    """Listen on the client URLs and return the message to print."""
    directory = _directory(flags)
    pages = {
        "/health": {"health": "true", "reason": ""},
        "/readyz": {"health": "true", "reason": ""},
        "/version": _VERSION,
        KEEP: {"path": str(directory)},
    }

    async def answer(request: HttpRequest) -> HttpResponse:
        page = pages.get(request.path)
        if page is None:
            return HttpResponse(404, [("content-type", "text/plain; charset=utf-8")], b"404 page not found\n")
        return HttpResponse(200, [("content-type", "application/json")], encode_json(page))

    urls = flags.listed("listen-client-urls", ["http://localhost:2379"])
    for url in urls:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigError(f"--listen-client-urls: {url!r} is no URL with http or https and a host")
        tls = None
        if parts.scheme == "https":
            tls = Tls(cert_file=Path(flags.text("cert-file")), key_file=Path(flags.text("key-file")))
        host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname
        await stack.enter_async_context(
            WebServer(asgi(answer), ServeOptions(host=host, port=parts.port or 2379, tls=tls))
        )
    return f"etcd, stood in for: keeps nothing but {directory}, serves {' '.join(urls)}"


def _directory(flags: Flags) -> Path:
    directory = Path(flags.text("data-dir", "default.etcd")).absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--data-dir: {error}") from error
    return directory


PROGRAM = FakeProgram(
    name="etcd",
    version=f"etcd Version: {_VERSION['etcdserver']}",
    switches=_SWITCHES,
    options=_OPTIONS,
    serve=serve,
)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
