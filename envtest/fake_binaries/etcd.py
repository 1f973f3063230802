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
from opsdk.http.server.server import ServeOptions, WebServer

KEEP = "/envtest/data-dir"
"""The path at which the fake kube-apiserver reads the data directory."""
_SWITCHES = frozenset({"unsafe-no-fsync", "version", "help"})
_OPTIONS = frozenset({"advertise-client-urls", "data-dir", "listen-client-urls", "listen-peer-urls", "name"})
_VERSION = "3.6.6"


async def serve(flags: Flags, stack: AsyncExitStack) -> str:
    """Listen on the client URLs and return the message to print."""
    directory = _directory(flags)
    pages = {
        "/health": {"health": "true", "reason": ""},
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
        if parts.scheme != "http" or not parts.hostname:
            raise ConfigError(f"--listen-client-urls: {url!r} has to be an http URL with a host")
        host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname
        await stack.enter_async_context(WebServer(asgi(answer), ServeOptions(host=host, port=parts.port or 2379)))
    return f"etcd (stand-in of envtest): creates {directory}, serves {' '.join(urls)}"


def _directory(flags: Flags) -> Path:
    directory = Path(flags.text("data-dir", "default.etcd")).absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--data-dir: {error}") from error
    return directory


PROGRAM = FakeProgram(
    name="etcd",
    version=lambda: f"etcd Version: {_VERSION}",
    switches=_SWITCHES,
    options=_OPTIONS,
    serve=serve,
)

if __name__ == "__main__":
    sys.exit(PROGRAM.main())
