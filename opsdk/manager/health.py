"""Health checks, with the response format of the Kubernetes health endpoints.

Upstream: sigs.k8s.io/controller-runtime/pkg/healthz/healthz.go
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from opsdk.aio.containment import cancellations, contain
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

Check = Callable[[], Awaitable[None]]
"""Returns on success, and raises the reason on failure. Must return quickly."""


async def ping() -> None:
    """Always succeeds; proves that the event loop is responsive."""


class Checks:
    """The checks of one endpoint.

    ``?verbose`` lists every check, ``?exclude=name`` skips one. Each check also has its own path, which shows the
    reason of a failure.

    A failure is logged: at INFO until the check passed once, because caches are not filled at the start; then at
    WARNING.

    Args:
        path: the path of the endpoint, such as ``/healthz``.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._checks: dict[str, Check] = {}
        self._passed: set[str] = set()

    def add(self, name: str, check: Check) -> None:
        """Add a check. It replaces a check with the same name."""
        self._passed.discard(name)
        self._checks[name] = check

    async def handle(self, request: HttpRequest) -> HttpResponse | None:
        """Return the response to a request, or None if the path does not match."""
        path = request.path.rstrip("/") or "/"
        if path == self.path:
            return await self._run_all(request)
        name = path.removeprefix(f"{self.path}/")
        if name != path and name in self._named_checks():
            error = await self._run(name)
            return _text(500, f"internal server error: {error}") if error is not None else _text(200, "ok")
        return None

    async def failures(self) -> dict[str, BaseException]:
        """Run all checks, and return the reasons of those that fail, by name. A response withholds the reasons."""
        results = {name: await self._run(name) for name in list(self._named_checks())}
        return {name: error for name, error in results.items() if error is not None}

    def _named_checks(self) -> Mapping[str, Check]:
        return self._checks or {"ping": ping}

    async def _run_all(self, request: HttpRequest) -> HttpResponse:
        """Run all checks and return their report, in the form of the API server's ``/healthz``."""
        excluded = set(request.query.all("exclude"))
        lines, failed = [], False
        for name in self._named_checks():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
            elif await self._run(name) is not None:
                failed = True
                lines.append(f"[-]{name} failed: reason withheld")
            else:
                lines.append(f"[+]{name} ok")
        if unknown := sorted(excluded - set(self._named_checks())):
            names = ", ".join(f'"{name}"' for name in unknown)
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        what = self.path.strip("/")
        if failed:
            return _text(500, "\n".join([*lines, f"{what} check failed", ""]))
        if "verbose" in request.query:
            return _text(200, "\n".join([*lines, f"{what} check passed", ""]))
        return _text(200, "ok")

    async def _run(self, name: str) -> BaseException | None:
        task = asyncio.current_task()
        before = cancellations(task)
        try:
            await self._named_checks()[name]()
        except BaseException as error:  # noqa: BLE001 - any exception means that the check failed
            contain(error, task=task, cancelling=before)
            report = log.warning if name in self._passed else log.info
            report("health check %s failed: %s", name, error)
            return error
        self._passed.add(name)
        return None


def _text(status: int, text: str) -> HttpResponse:
    headers = [("content-type", "text/plain; charset=utf-8"), ("x-content-type-options", "nosniff")]
    return HttpResponse(status=status, headers=headers, body=text.encode())
