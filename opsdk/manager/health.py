"""Health checks: named questions, and the answers as the Kubernetes health endpoints give them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse

log = logging.getLogger(__name__)

Check = Callable[[], Awaitable[None]]
"""Returns if all is well, and raises the reason if not. Must answer fast."""


async def ping() -> None:
    """Always well: shows that the event loop turns."""


class Checks:
    """The checks behind one endpoint. `path` is the endpoint, e.g. ``/healthz``.

    ``?verbose`` lists every check, ``?exclude=name`` leaves one out, and each check has a path of its own, where a
    failure says its reason.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._checks: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> None:
        """Add a check; one of the same name is replaced."""
        self._checks[name] = check

    async def handle(self, request: HttpRequest) -> HttpResponse | None:
        """The answer to a request, or None if it is not for this endpoint."""
        path = request.path.rstrip("/") or "/"
        if path == self.path:
            return await self._all(request)
        name = path.removeprefix(f"{self.path}/")
        if name != path and name in self._known():
            error = await self._ask(name)
            return _text(500, f"internal server error: {error}") if error is not None else _text(200, "ok")
        return None

    def _known(self) -> Mapping[str, Check]:
        return self._checks or {"ping": ping}

    async def _all(self, request: HttpRequest) -> HttpResponse:
        excluded = set(request.query.all("exclude"))
        lines, failed = [], False
        for name in self._known():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
            elif await self._ask(name) is not None:
                failed = True
                lines.append(f"[-]{name} failed: reason withheld")
            else:
                lines.append(f"[+]{name} ok")
        if unknown := sorted(excluded - set(self._known())):
            names = ", ".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        what = self.path.strip("/")
        if failed:
            return _text(500, "\n".join([*lines, f"{what} check failed", ""]))
        if "verbose" in request.query:
            return _text(200, "\n".join([*lines, f"{what} check passed", ""]))
        return _text(200, "ok")

    async def _ask(self, name: str) -> Exception | None:
        try:
            await self._known()[name]()
        except Exception as error:  # noqa: BLE001 - whatever a check raises is its answer
            log.warning("health check %s failed: %s", name, error)
            return error
        return None


def _text(status: int, text: str) -> HttpResponse:
    headers = [("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff")]
    return HttpResponse(status=status, headers=headers, body=text.encode())
