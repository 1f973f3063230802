"""Debug pages: tasks, queues, informers and memory of a running program, as JSON or text.

The pages show names, counts, durations, places in code and error messages. They never show values of variables,
objects, tokens or request bodies. They are read-only. A POST request to an action changes something; only a program on
the same host can send one.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec.structs import asdict

from opsdk.aio.containment import cancellations, contain
from opsdk.aio.task_stacks import TaskAges
from opsdk.errors import ApiError, BadRequestError, TooLargeError, UsageError
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse, encode_json, json_response, text_response
from opsdk.manager.address import is_direct_host, is_loopback_host
from opsdk.telemetry.describe import describe
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

Provider = Callable[[], "object | Awaitable[object]"]
"""Returns what a page shows, as a value with a JSON form."""

Action = Callable[[Mapping[str, str]], "Mapping[str, object]"]
"""Carries out a POST request with the strings of its JSON body. Returns the answer, with a JSON form.

Raises `UsageError` for a request that cannot be served now (409), and another `ApiError` with its status.
"""

ROOT = "/debug/"
# Seconds for a provider, and rows of the memory page.
_TIMEOUT = 10.0
_MAX_ROWS = 20
# Bytes of the body of a POST request.
_MAX_BODY = 4096
# Objects counted in one slice, about 3 ms; other tasks run between slices.
_OBJECTS_PER_SLICE = 50_000


class DebugPages:
    """The pages below ``/debug/``. ``?format=text`` shows a page as YAML."""

    def __init__(self) -> None:
        self._pages: dict[str, tuple[str, Provider]] = {}
        self._row_providers: dict[str, list[Callable[[], Iterable[object]]]] = {}
        self._actions: dict[str, Action] = {}

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

    def add_action(self, path: str, action: Action) -> None:
        """Call `action` for each ``POST`` request to a path. A page may have the same path."""
        self._actions[_name(path)] = action

    async def handle(self, request: HttpRequest) -> HttpResponse | None:
        """Return the response to a request, or None if the path does not match."""
        path = request.path.rstrip("/") + "/"
        if not path.startswith(ROOT):
            return None
        if not is_direct_host(request.header("host")):
            # A web page whose name leads to 127.0.0.1 could read the answer (DNS rebinding).
            return text_response("debug pages answer to addresses and localhost only\n", status=403)
        name = path.removeprefix(ROOT).rstrip("/")
        if request.method == "POST":
            return await self._act(request, name)
        if path == ROOT:
            return _respond(request, {"pages": {ROOT + n: d for n, (d, _) in sorted(self._pages.items())}})
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

    async def _act(self, request: HttpRequest, name: str) -> HttpResponse | None:
        """Return the response to a POST request."""
        action = self._actions.get(name)
        if action is None:
            return text_response("method not allowed", status=405) if name in self._pages or not name else None
        if refusal := _refusal(request):
            return text_response(f"{refusal}\n", status=403)
        try:
            arguments = msgspec.json.decode(await request.body(_MAX_BODY), type=dict[str, str])
        except (TooLargeError, BadRequestError, msgspec.MsgspecError) as error:
            return text_response(f"the body is not a JSON object of strings: {describe(error)[0]}\n", status=400)
        log.info("debug page %s: %s", request.path, arguments)
        try:
            return json_response(action(arguments), status=202)
        except UsageError as error:
            return text_response(f"{error}\n", status=409)
        except ApiError as error:
            return text_response(f"{error.message}\n", status=error.code)

    def __repr__(self) -> str:
        return f"<DebugPages {', '.join(sorted(self._pages)) or 'empty'}>"


def _name(path: str) -> str:
    name = path.removeprefix(ROOT).strip("/")
    if not name or "/" in name:
        raise UsageError(f"{path!r} is not the path of a debug page: write {ROOT}name, or name")
    return name


def _refusal(request: HttpRequest) -> str:
    """Return why a POST request is refused; empty if a program on this host sent it.

    A browser marks the requests of a page with ``Origin`` or ``Sec-Fetch-Site``. A page can send a body of this content
    type to another origin only after a preflight request, which gets no permission.
    """
    if not is_loopback_host(request.client):
        return "actions are for clients on the same host: use kubectl port-forward, or opsdk top --pod"
    if "origin" in request.headers or request.header("sec-fetch-site", "none") != "none":
        return "actions are not for web pages"
    if request.header("content-type").partition(";")[0].strip().lower() != "application/json":
        return "an action needs a body with the content type application/json"
    return ""


def _respond(request: HttpRequest, value: object) -> HttpResponse:
    if request.query.get("format") == "text":
        from opsdk.apimachinery.serializer.yaml_writer import write_yaml  # noqa: PLC0415 - start-up time: for text only

        # Convert to JSON first, so that both formats show the same for all types.
        return text_response(write_yaml(msgspec.json.decode(encode_json(value)), sort_keys=False))
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
        "rss_bytes": rss_bytes(),
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


def rss_bytes() -> int | None:
    """Return the resident memory in bytes, or None where the system has no /proc."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")


def _allocations() -> list[dict[str, object]] | None:
    import tracemalloc  # noqa: PLC0415 - start-up time: brings pickle, and only this page needs it

    if not tracemalloc.is_tracing():
        return None
    largest = tracemalloc.take_snapshot().statistics("lineno")[:_MAX_ROWS]
    return [{"place": str(row.traceback), "bytes": row.size, "blocks": row.count} for row in largest]
