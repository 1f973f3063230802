"""Which code of an operator sent a write, and what it had read before: for the report of a run.

It walks the frames of all tasks, so only a run that is repeated for its report does it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

import msgspec

from opsdk.aio.task_stacks import await_frames, is_of_author
from opsdk.client.activity import Activity, ObjectRead
from opsdk.engine.writes import Entry

__all__ = ["Sender", "ServerVersions", "sender_of"]

_BEGIN = "_begin"
"""The method of the in-process transport that waits for a response, and its variable with the exchange."""
_EXCHANGE = "exchange"


class Sender(msgspec.Struct, frozen=True, kw_only=True):
    """The code that sent a write.

    Attributes:
        function: ``module:function`` of the reconciler, the finalizer or the daemon.
        file: of the innermost line of the author's code, relative to the current folder if it is below.
        line: its number.
        reads: what the reconcile had read before, each with what the server had when the write was sent.
    """

    function: str
    file: str
    line: int
    reads: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.function} ({self.file}:{self.line})"


class ServerVersions:
    """The resource versions that the server has now, by group, kind, namespace and name."""

    def __init__(self) -> None:
        self._versions: dict[str, str] = {}

    def add(self, entry: Entry) -> None:
        """Note a stored write."""
        obj = entry.after or entry.before or {}
        metadata = obj.get("metadata", {})
        place = "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
        key = _key(str(obj.get("apiVersion")), str(obj.get("kind")), place)
        self._versions[key] = metadata.get("resourceVersion", "") if entry.after is not None else ""

    def text_of(self, read: ObjectRead) -> str:
        """Return a read, and how the server differed from it.

        >>> versions = ServerVersions()
        >>> versions.text_of(ObjectRead("v1, Kind=Pod", "default/a", "7", True))
        'Pod default/a at 7 from the cache; on the server it was gone'
        """
        api_version, _, kind = read.gvk.partition(", Kind=")
        present = self._versions.get(_key(api_version, kind, read.key), "")
        source = "the cache" if read.cached else "the server"
        version = f"at {read.resource_version}" if read.resource_version else "(absent)"
        text = f"{kind} {read.key} {version} from {source}"
        if present == read.resource_version:
            return text
        return f"{text}; the server had {present}" if present else f"{text}; on the server it was gone"


def _key(api_version: str, kind: str, place: str) -> str:
    """Return a key that is the same in all versions of a kind."""
    group = api_version.rpartition("/")[0]
    return f"{group} {kind} {place}"


def sender_of(handling: asyncio.Task[object] | None, versions: ServerVersions) -> Sender | None:
    """Return the code that waits for the response of a task of the server; None if there is no line of the author.

    Args:
        handling: the task in which the server handles the request.
        versions: of the server's objects.
    """
    stacks = {task: list(await_frames(task.get_coro())) for task in asyncio.all_tasks()}
    task = next((task for task, frames in stacks.items() if _waits_for(frames, handling)), None)
    frames: list[FrameType] = []
    while task is not None and task in stacks:
        frames = [*stacks.pop(task), *frames]
        task = next((each for each, others in stacks.items() if _is_group_of(others, task)), None)
    return _sender(frames, versions)


def _waits_for(frames: Sequence[FrameType], handling: asyncio.Task[object] | None) -> bool:
    exchanges = (frame.f_locals.get(_EXCHANGE) for frame in frames if frame.f_code.co_name == _BEGIN)
    return any(getattr(each, "task", None) is handling for each in exchanges)


def _is_group_of(frames: Sequence[FrameType], task: asyncio.Task[object]) -> bool:
    """Whether frames wait for a task group with a task: `Context.apply_all` applies children in one."""
    groups = (frame.f_locals.get("self") for frame in frames[-2:])
    return any(isinstance(each, asyncio.TaskGroup) and task in each._tasks for each in groups)  # noqa: SLF001 - no other way


def _sender(frames: Sequence[FrameType], versions: ServerVersions) -> Sender | None:
    own = [frame for frame in frames if is_of_author(frame.f_code.co_filename)]
    if not own:
        return None
    path = Path(own[-1].f_code.co_filename)
    here = Path.cwd()
    return Sender(
        function=f"{own[0].f_globals.get('__name__', '')}:{own[0].f_code.co_qualname}",
        file=str(path.relative_to(here) if path.is_relative_to(here) else path),
        line=own[-1].f_lineno,
        reads=tuple(dict.fromkeys(versions.text_of(read) for read in _reads(frames))),
    )


def _reads(frames: Sequence[FrameType]) -> Iterator[ObjectRead]:
    """Yield what the reconcile has read until now."""
    for frame in frames:
        activity = getattr(frame.f_locals.get("work"), "activity", None)
        if isinstance(activity, Activity):
            yield from activity.reads
