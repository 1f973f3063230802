"""Debug pages: tasks, queues, informers and memory of a running program, as JSON or text. Read-only.

The pages show names, counts, durations, places in code and error messages. They never show values of variables,
objects, tokens or request bodies.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import threading
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from msgspec.structs import asdict

from opsdk.aio.containment import cancellations, contain
from opsdk.aio.task_stacks import TaskAges
from opsdk.errors import UsageError
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, encode_json, text_response
from opsdk.manager.address import is_direct_host
from opsdk.telemetry.describe import describe
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

Provider = Callable[[], "object | Awaitable[object]"]
"""Returns what a page shows, as a value with a JSON form."""

ROOT = "/debug/"
# Seconds for a provider, and rows of the memory page.
_TIMEOUT = 10.0
_MAX_ROWS = 20
# Objects counted in one slice, about 3 ms; other tasks run between slices.
_OBJECTS_PER_SLICE = 50_000


class DebugPages:
    """The pages below ``/debug/``. ``?format=text`` shows a page as YAML."""

    def __init__(self) -> None:
        self._pages: dict[str, tuple[str, Provider]] = {}
        self._row_providers: dict[str, list[Callable[[], Iterable[object]]]] = {}

    def add(self, path: str, provider: Provider, *, description: str = "") -> None:
        """Add a page. It replaces a page with the same path.

        Args:
            path: ``/debug/reconciles``, or ``reconciles``.
            provider: called for each request; sync or async. Its exception becomes a response with status 500.
            description: one line for the index.

        Raises:
            UsageError: the path is empty or has more than one part.
        """
        self._pages[_name(path)] = (description, provider)

    def extend(self, path: str, provider: Callable[[], Iterable[object]]) -> None:
        """Add rows to a page that is a list. Several runnables may add rows to the same page."""
        parts = self._row_providers.setdefault(_name(path), [])
        parts.append(provider)
        if _name(path) not in self._pages:
            self.add(
                path, lambda: [row for part in parts for row in part()], description=f"{_name(path)}, one in a row"
            )

    async def handle(self, request: HttpRequest) -> HttpResponse | None:
        """Return the response to a request, or None if the path does not match."""
        path = request.path.rstrip("/") + "/"
        if not path.startswith(ROOT):
            return None
        if not is_direct_host(request.header("host")):
            # A web page whose name leads to 127.0.0.1 could read the answer (DNS rebinding).
            return text_response("debug pages answer to addresses and localhost only\n", status=403)
        if path == ROOT:
            return _respond(request, {"pages": {ROOT + n: d for n, (d, _) in sorted(self._pages.items())}})
        name = path.removeprefix(ROOT).rstrip("/")
        if name not in self._pages:
            return None
        task = asyncio.current_task()
        before = cancellations(task)
        try:
            async with asyncio.timeout(_TIMEOUT):
                value = self._pages[name][1]()
                if inspect.isawaitable(value):
                    value = await value
            return _respond(request, value)
        except BaseException as error:
            contain(error, task=task, cancelling=before)
            log.exception("the debug page %s failed", request.path)
            return text_response(f"the page failed: {describe(error)[0]}\n", status=500)

    def __repr__(self) -> str:
        return f"<DebugPages {', '.join(sorted(self._pages)) or 'empty'}>"


def _name(path: str) -> str:
    name = path.removeprefix(ROOT).strip("/")
    if not name or "/" in name:
        raise UsageError(f"{path!r} is not the path of a debug page: write {ROOT}name, or name")
    return name


def _respond(request: HttpRequest, value: object) -> HttpResponse:
    if request.query.get("format") == "text":
        # Convert to JSON first, so that both formats show the same for all types.
        import msgspec  # noqa: PLC0415 - as above
        import yaml  # noqa: PLC0415 - start-up time: only this page needs it

        text = yaml.safe_dump(msgspec.json.decode(encode_json(value)), sort_keys=False, width=200, allow_unicode=True)
        return text_response(text)
    return HttpResponse(200, [("content-type", "application/json")], encode_json(value) + b"\n")


# ------------------------------------------------------------------ pages
def tasks_page(ages: TaskAges) -> list[dict[str, object]]:
    """Return every task with its age and await stack, the oldest first."""
    return [asdict(state) for state in ages.states()]


async def memory_page() -> Mapping[str, object]:
    """Return memory and object counts of the process. Other tasks run while objects are counted.

    ``tracemalloc`` is None unless the program was started with ``python -X tracemalloc``.
    """
    objects = gc.get_objects()
    counts: Counter[type] = Counter()
    for begin in range(0, len(objects), _OBJECTS_PER_SLICE):
        counts.update(map(type, objects[begin : begin + _OBJECTS_PER_SLICE]))
        await asyncio.sleep(0)
    total = len(objects)
    del objects
    return {
        "rss_bytes": _rss(),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "gc": {
            "counts": gc.get_count(),
            "thresholds": gc.get_threshold(),
            "frozen": gc.get_freeze_count(),
            "generations": gc.get_stats(),
        },
        "objects": total,
        "objects_by_type": {f"{t.__module__}.{t.__qualname__}": n for t, n in counts.most_common(_MAX_ROWS)},
        "tracemalloc": _allocations(),
    }


def _rss() -> int | None:
    """Return the resident memory in bytes, or None where the system has no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _allocations() -> list[dict[str, object]] | None:
    if not tracemalloc.is_tracing():
        return None
    largest = tracemalloc.take_snapshot().statistics("lineno")[:_MAX_ROWS]
    return [{"place": str(row.traceback), "bytes": row.size, "blocks": row.count} for row in largest]
