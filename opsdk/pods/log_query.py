"""The query of a log request. Pure.

Upstream: k8s.io/api/core/v1/types.go, PodLogOptions (v1.36)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TypedDict, Unpack

from opsdk.base.durations import as_seconds
from opsdk.errors import UsageError


class LogKeywords(TypedDict, total=False):
    """Keywords of a log. The method that takes them describes them."""

    container: str
    follow: bool
    since: float | timedelta | datetime | None
    tail: int | None
    previous: bool
    timestamps: bool
    limit_bytes: int | None


def log_query(**options: Unpack[LogKeywords]) -> list[tuple[str, str]]:
    """Return the query of a log request. Raises `UsageError` for a value that the server would refuse.

    >>> log_query(container="app", follow=True, since=timedelta(minutes=1), tail=5)
    [('container', 'app'), ('follow', 'true'), ('sinceSeconds', '60'), ('tailLines', '5')]
    """
    if unknown := sorted(options.keys() - LogKeywords.__annotations__.keys()):
        raise UsageError(f"logs has no option {', '.join(unknown)}, only {', '.join(LogKeywords.__annotations__)}")
    tail, limit_bytes = options.get("tail"), options.get("limit_bytes")
    if tail is not None and tail < 0:
        raise UsageError(f"tail is {tail}: pass the number of last lines, at least 0")
    if limit_bytes is not None and limit_bytes < 1:
        raise UsageError(f"limit_bytes is {limit_bytes}: pass a number of bytes, at least 1")
    return [
        *([("container", options["container"])] if options.get("container") else []),
        *((name, "true") for name in ("follow", "previous", "timestamps") if options.get(name)),
        *_since(options.get("since")),
        *([("tailLines", str(tail))] if tail is not None else []),
        *([("limitBytes", str(limit_bytes))] if limit_bytes is not None else []),
    ]


def _since(since: float | timedelta | datetime | None) -> Iterator[tuple[str, str]]:
    if since is None:
        return
    if isinstance(since, datetime):
        if since.tzinfo is None:
            raise UsageError(f"since is {since}: pass a datetime with a time zone, such as UTC")
        yield "sinceTime", since.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        return
    seconds = as_seconds(since)
    if not seconds:
        raise UsageError(f"since is {since!r}: pass seconds or a timedelta above 0, or a datetime")
    yield "sinceSeconds", str(math.ceil(seconds))
