"""Waits until one object is as it should be: pure judgements, and one watch of the object.

Upstream: k8s.io/kubectl/pkg/cmd/wait (``create``, ``delete``, ``condition=TYPE[=STATUS]``)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import msgspec

from opsdk.aio.waiting import wait_ended
from opsdk.apimachinery.codec import decode
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import AnyObject, to_dict
from opsdk.apimachinery.selectors import FieldSelector
from opsdk.cache.cache import Cache
from opsdk.cache.cached_kind import CachedKind
from opsdk.cache.options import ByObject, CacheOptions
from opsdk.children.readiness import Ready, check_ready, judge_ready
from opsdk.errors import ApiError, CacheSyncError, DeadlineError, UsageError
from opsdk.recipes.summaries import SummaryState
from opsdk.structured_merge.value import JsonObject

CREATE: Final = "create"
DELETE: Final = "delete"
_CONDITION: Final = "condition="
_CLOSE_SECONDS = 5.0


class Until(msgspec.Struct, frozen=True):
    """What is waited for.

    Attributes:
        name: of the object, for messages.
        text: what it should be, for messages.
        exists: False waits for its end.
        condition: type of a condition, and its status in lower case; None for none.
        ready: see `Ready`; False for none.
    """

    name: str
    text: str
    exists: bool = True
    condition: tuple[str, str] | None = None
    ready: Ready = False

    def lacks(self, obj: Any) -> str:
        """Return why an object is not as it should be; empty if it is. None is an object that does not exist."""
        if obj is None:
            return "it does not exist" if self.exists else ""
        if not self.exists:
            finalizers = ", ".join(obj.metadata.finalizers) or "none"
            deleting = f"it is being deleted (finalizers: {finalizers})"
            return deleting if obj.metadata.deletion_timestamp is not None else "it exists"
        if self.condition is not None:
            return _lacks_condition(to_dict(obj), *self.condition)
        summary = judge_ready(obj, self.ready)
        return "" if summary.state is SummaryState.CURRENT else summary.message or summary.state.value


def parse_until(until: Ready, name: str) -> Until:
    """Return what `Cluster.wait_for` waits for. Raises `UsageError` for what cannot work.

    >>> parse_until("condition=Available", "Deployment default/web").condition
    ('Available', 'true')
    """
    if until is False or until == "":
        raise UsageError(f'{name}: until is {until!r}: write "create", "delete", "condition=Ready", or True')
    if until == CREATE:
        return Until(name, "exist")
    if until == DELETE:
        return Until(name, "be gone", exists=False)
    if isinstance(until, str) and until.startswith(_CONDITION):
        type_, _, status = until.removeprefix(_CONDITION).partition("=")
        if not type_:
            raise UsageError(f"{name}: until is {until!r}: write a type, such as condition=Ready")
        return Until(name, f"have {until}", condition=(type_, (status or "True").lower()))
    check_ready(until, name)
    text = "be ready" if until is True else f"meet {until if isinstance(until, str) else _name_of(until)}"
    return Until(name, text, ready=until)


def _name_of(function: Callable[[Any], bool] | bool) -> str:
    return getattr(function, "__qualname__", repr(function))


def _lacks_condition(tree: JsonObject, type_: str, status: str) -> str:
    conditions = (tree.get("status") or {}).get("conditions") or []
    # kubectl ignores the case of both.
    condition = next((each for each in conditions if str(each.get("type", "")).lower() == type_.lower()), None)
    if condition is None:
        return f"it has no condition {type_}"
    generation, observed = tree["metadata"].get("generation") or 0, condition.get("observedGeneration")
    if observed and observed < generation:
        return f"its condition {type_} is of generation {observed}, not {generation}"
    if str(condition.get("status", "")).lower() == status:
        return ""
    details = ": ".join(filter(None, (condition.get("reason"), condition.get("message"))))
    return f"its condition {type_} is {condition.get('status')}" + (f": {details}" if details else "")


class Followed(NamedTuple):
    """One object, which need not exist.

    Attributes:
        informers: have its state; the initial list may be missing.
        running: ends with the error of the cache.
    """

    informers: CachedKind
    running: asyncio.Task[None]


@asynccontextmanager
async def followed(
    new_cache: Callable[[CacheOptions], Cache], kind: Kind[AnyObject], key: ObjectKey
) -> AsyncIterator[Followed]:
    """Follow one object with a watch of its own.

    Args:
        new_cache: see `Cluster.new_cache`.
        kind: of the object.
        key: of the object.

    Raises:
        NoMatchError: the server does not serve the kind.
    """
    field_selector = FieldSelector.parse(f"metadata.name={key.name}")
    selected = ByObject(namespaces=[key.namespace] if key.namespace else [], field_selector=field_selector)
    cache = new_cache(CacheOptions(by_kind={kind.gvk: selected}))
    running = asyncio.get_running_loop().create_task(cache.start(), name=f"watch of {kind.gvk.kind} {key}")
    try:
        yield Followed(await cache.informer_for(kind), running)
    finally:
        running.cancel()
        await wait_ended([running], _CLOSE_SECONDS)
        await cache.aclose()


async def wait_for(
    new_cache: Callable[[CacheOptions], Cache], kind: Kind[AnyObject], key: ObjectKey, until: Until, seconds: float
) -> Any:
    """Return the object once it is as it should be; None once it is gone. See `Cluster.wait_for`."""
    changed, lacks = asyncio.Event(), "the server has not answered"
    async with followed(new_cache, kind, key) as (informers, _):
        (informer,) = informers.informers.values()
        try:
            async with asyncio.timeout(seconds):
                await informer.wait_synced(fail_fast=True)
                informers.add_handler(lambda _: changed.set())
                while True:
                    entry = next(iter(informers.entries(key.namespace)), None)
                    obj = decode(entry.data, kind) if entry is not None else None
                    if not (lacks := until.lacks(obj)):
                        return obj
                    await changed.wait()
                    changed.clear()
        except TimeoutError:
            problem, cause = "", informer.last_error
            if cause is not None:
                problem = f"; the watch fails now: {cause}"
            raise DeadlineError(f"waited {seconds:g} s for {until.name} to {until.text}: {lacks}{problem}") from cause
        except CacheSyncError as error:
            if isinstance(error.__cause__, ApiError):
                raise error.__cause__ from None
            raise
