"""Follows what an operator registered at the API server: watches it, restores it, reports what is not restored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Final

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import monotonic
from opsdk.aio.named_sleep import named_sleep
from opsdk.aio.tasks import TaskOwner
from opsdk.apimachinery.codec import decode
from opsdk.apimachinery.object import Unstructured, to_dict
from opsdk.apimachinery.selectors import FieldSelector
from opsdk.cache.cache import Cache
from opsdk.cache.cached_kind import CachedKind
from opsdk.cache.options import ByObject, CacheOptions
from opsdk.cache.store import Delta
from opsdk.children.contention import Contention
from opsdk.children.ownership import managers_of
from opsdk.client.client import Client
from opsdk.client.patch import json_patch
from opsdk.errors import (
    ConfigError,
    ConflictError,
    ContendedError,
    ForbiddenError,
    InvalidError,
    NoMatchError,
    NotFoundError,
    OpsdkError,
)
from opsdk.structured_merge.value import JsonObject
from opsdk.telemetry.records import RegisteredFaults, TelemetryHook
from opsdk.telemetry.safe_logger import SafeLogger
from opsdk.webhook.certificates.injection import InjectionTarget
from opsdk.webhook.configurations import WebhookClientConfig
from opsdk.webhook.registered.comparison import RegisteredObject, RegistrationDiff, RegistrationFault, compare
from opsdk.webhook.registered.policies import compare_policy, restored_binding
from opsdk.webhook.registered.policy_targets import PolicyTarget, RegisteredBinding, RegisteredPolicy

log = SafeLogger(__name__)

Registered = RegisteredObject | RegisteredPolicy
RegisteredTarget = InjectionTarget | PolicyTarget
NewCache = Callable[[CacheOptions], Cache]
"""Returns a cache of its own: ``Cluster.new_cache``."""
_RETRY_BACKOFF: Final = Backoff(base=0.5, cap=30.0, jitter=0.5)
_UNINSTALL_SECONDS: Final = 10.0
"""Seconds until a deleted binding is created again: an uninstall deletes its policy too, in any order."""
_DENIED_SECONDS: Final = 300.0
"""Seconds until a watch that was denied is tried again: each attempt logs an error."""
_TICK: Final = 0.1
"""The shortest wait in seconds, where the rest of a wait is rounding."""
_ROLE_ADVICE: Final = "apply the roles that opsdk generate rbac prints"


class _Followed:
    """The state of one registered object."""

    def __init__(self, declared: Registered) -> None:
        self.declared = declared
        self.changed = asyncio.Event()
        self.lock = asyncio.Lock()
        self.contention = Contention()
        self.contended: RegistrationFault | None = None
        self.unwatched: RegistrationFault | None = None
        self.differences: tuple[RegistrationFault, ...] = ()
        self.faults: tuple[RegistrationFault, ...] = ()
        self.was_seen = False
        self.missing_since: float | None = None
        self.informers: CachedKind | None = None
        self.tree: JsonObject | None = None

    @property
    def is_watched(self) -> bool:
        """Whether `tree` is the state that a running watch shows."""
        informers = self.informers.informers.values() if self.informers is not None else ()
        return bool(informers) and all(each.has_synced and each.last_error is None for each in informers)

    def observe(self, tree: JsonObject | None, client_config: WebhookClientConfig | None) -> RegistrationDiff:
        """Compare a state of the object with the declaration."""
        if isinstance(self.declared, RegisteredPolicy):
            comparison = compare_policy(self.declared, tree)
        else:
            comparison = compare(self.declared, tree, client_config, was_seen=self.was_seen)
        self.tree, self.was_seen = tree, self.was_seen or tree is not None
        if tree is not None:
            self.missing_since = None
        elif self.missing_since is None:
            self.missing_since = monotonic()
        return comparison

    @property
    def deleted_binding(self) -> RegisteredBinding | None:
        """The binding to create again; None if it exists or is something else."""
        if self.tree is not None or not isinstance(self.declared, RegisteredBinding):
            return None
        return self.declared if self.declared.is_restored else None


class RegisteredObjects:
    """Keeps the registered objects of an operator as declared. A Runnable that runs on every replica.

    Each object is watched by its name. A difference is restored at once, with a JSON patch of the operator's own
    fields. Another writer that removes them again and again is met ever more slowly. What cannot be restored is
    logged once, is in the metrics, and makes the replica unready if it is critical, see `RegistrationFault`.

    Args:
        client: reads and writes; it must not read from a cache.
        objects: what the operator registered.
        client_config: how the API server reaches this server; None if the operator does not know it. Then it restores
            nothing.
        new_cache: makes the caches of the watches; None without watches, for callers of `restore_all` only.
        hook: receives the number of faults of each object.
        field_owner: of the operator; a deleted binding of a policy without an apply gets it.
        is_called: the API server calls the operator through the objects. If not, an operator without webhooks only
            reports what changed since its start: no fault is critical, since nothing routes requests to a replica, and
            an unready one would only block node drains and rollouts. Without the permission it does not follow.

    Attributes:
        ca_bundle: what each ``caBundle`` must be (PEM); None until the certificates are issued. Nothing is restored
            before.
        confirm: called between the read of an object and its patch. It raises `ConflictError` if the ``caBundle`` is
            outdated.
    """

    def __init__(
        self,
        client: Client,
        objects: Iterable[Registered] = (),
        *,
        client_config: WebhookClientConfig | None = None,
        new_cache: NewCache | None = None,
        hook: TelemetryHook | None = None,
        field_owner: str = "",
        is_called: bool = True,
    ) -> None:
        self._client = client
        self._field_owner = field_owner
        self._is_called = is_called
        self._client_config = client_config
        self._new_cache = new_cache
        self._hook = hook or TelemetryHook()
        self._followed: dict[RegisteredTarget, _Followed] = {}
        self._restored = False
        self.ca_bundle: bytes | None = None
        self.confirm: Callable[[bytes], Awaitable[None]] | None = None
        self.declare(objects)

    def declare(self, objects: Iterable[Registered]) -> None:
        """Set the objects. The state of those that stay is kept."""
        before = self._followed
        self._followed = {declared.target: before.get(declared.target) or _Followed(declared) for declared in objects}

    @property
    def targets(self) -> Sequence[InjectionTarget]:
        """The objects with a ``caBundle``."""
        return tuple(target for target in self._followed if isinstance(target, InjectionTarget))

    # -------------------------------------------------------------- life cycle
    def needs_leader_election(self) -> bool:
        """Return False: each replica serves webhooks, so each must know whether it is called."""
        return False

    def debug_pages(self) -> Mapping[str, Callable[[], Iterable[object]]]:
        """Return the page with the faults of each object."""
        return {"registered": self._rows}

    def _rows(self) -> Iterable[object]:
        return [
            {
                "object": str(target),
                "watched": followed.is_watched,
                "faults": [f"{fault.text}: {fault.advice}" for fault in followed.faults],
            }
            for target, followed in self._followed.items()
        ]

    async def start(self) -> None:
        """Follow the objects until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for target, followed in self._followed.items():
                tasks.create_task(self._follow(followed), name=f"registered {target}")
            await asyncio.get_running_loop().create_future()

    async def check_ready(self) -> None:
        """Raise `ConfigError` with all critical faults, for ``Manager.add_readyz_check``."""
        faults = [
            f"{target} {fault.text}: {fault.advice}"
            for target, followed in self._followed.items()
            for fault in followed.faults
            if fault.critical
        ]
        if faults:
            raise ConfigError("; ".join(faults))

    # -------------------------------------------------------------- the watch
    async def _follow(self, followed: _Followed) -> None:
        """Watch one object. Without the permission, report that once, and try again later.

        An operator that is not called through the object does without until its next start.
        """
        target = followed.declared.target
        while True:
            try:
                if not self._is_called:
                    # Without the permission, an informer would log an error.
                    await self._client.get_or_none(target.kind.kind, target.name, uncached=True)
                await self._watch(followed)
            except OpsdkError as error:
                if self._is_called:
                    text = f"cannot be watched, so changes are seen late: {error}"
                    followed.unwatched = RegistrationFault(text, _ROLE_ADVICE, critical=False)
                    self._report(followed, *followed.differences)
                else:
                    log.debug("%s is not followed: %s", target, error)
                    if isinstance(error, (ForbiddenError, NoMatchError)):
                        return
            finally:
                followed.informers = None
            await named_sleep(f"watch of {target}", _DENIED_SECONDS)

    async def _watch(self, followed: _Followed) -> None:
        """Watch one object, and bring it to the declared state after each change. Raises if the watch is denied."""
        assert self._new_cache is not None  # `start` is for programs with watches
        target = followed.declared.target
        kind = target.kind.kind
        by_name = ByObject(field_selector=FieldSelector.parse(f"metadata.name={target.name}"))

        def on_delta(delta: Delta) -> None:
            followed.tree = to_dict(decode(delta.new.data, kind)) if delta.new is not None else None
            followed.changed.set()

        async with (
            aclosing(self._new_cache(CacheOptions(by_kind={kind.gvk: by_name}))) as cache,
            TaskOwner(f"watch of {target}") as tasks,
        ):
            tasks.start(cache.start(), name="cache")
            informers = await cache.informer_for(kind)
            await informers.wait_synced(fail_fast=True)
            informers.add_handler(on_delta)
            followed.informers, followed.unwatched = informers, None
            followed.changed.set()  # also without an object
            backoff = _RETRY_BACKOFF.start()
            while True:
                await followed.changed.wait()
                followed.changed.clear()
                delay = await self._bring(followed)
                with suppress(TimeoutError):
                    async with asyncio.timeout(backoff.next(monotonic()) if delay is None else delay or None):
                        await followed.changed.wait()
                followed.changed.set()

    async def _bring(self, followed: _Followed) -> float | None:
        """Restore one object if needed. Return the seconds until the next attempt: 0 for none, None for a backoff."""
        if self._client_config is not None and self.ca_bundle is None:
            return 0.0  # the first `restore_all` follows
        comparison = followed.observe(followed.tree, self._wanted)
        if (binding := followed.deleted_binding) is not None:
            return await self._restore_binding(followed, binding, comparison)
        if not comparison.patch:
            self._report(followed, *comparison.faults)
            return max(followed.contention.calm_at - monotonic(), _TICK) if followed.contended is not None else 0.0
        try:
            await self.restore(followed.declared.target)
        except ContendedError:
            return max(followed.contention.wait(now=monotonic()), _TICK)
        except OpsdkError:
            return None
        return 0.0

    async def _restore_binding(
        self, followed: _Followed, binding: RegisteredBinding, comparison: RegistrationDiff
    ) -> float | None:
        """Create a deleted binding again whose policy still exists. Returns as `_bring`."""
        contention = followed.contention
        assert followed.missing_since is not None  # `observe` saw that it is missing
        self._report(followed, *comparison.faults)
        deleted_for = monotonic() - followed.missing_since
        if (delay := max(_UNINSTALL_SECONDS - deleted_for, contention.wait(now=monotonic()))) > 0:
            return max(delay, _TICK)
        policy = binding.policy.target
        try:
            live = await self._client.get_or_none(policy.kind.kind, policy.name, uncached=True)
            restored = restored_binding(binding, to_dict(live) if live is not None else None, self._field_owner)
            if restored is None:
                return _DENIED_SECONDS
            obj = Unstructured.from_tree(restored.tree)
            await self._client.apply(obj, field_owner=restored.field_owner, force=True)
        except OpsdkError as error:
            text = f"was deleted, and cannot be created again: {error}"
            self._report(followed, RegistrationFault(text, _advice(error), critical=False))
            return _DENIED_SECONDS if isinstance(error, ForbiddenError) else None
        contention.written(now=monotonic())
        log.info("created %s again", binding.target)
        return 0.0

    @property
    def _wanted(self) -> WebhookClientConfig | None:
        """How the API server must reach this server; None while that is not known."""
        if self._client_config is None or self.ca_bundle is None:
            return None
        return replace(self._client_config, ca_bundle=self.ca_bundle)

    # -------------------------------------------------------------- one object
    async def restore_all(self, *, fresh: bool = True) -> bool:
        """Bring each object to the declared state, continue after failures, then raise the first failure.

        Args:
            fresh: read all objects. Else those are not read that a running watch shows as declared.

        Returns:
            Whether any object was changed since the last call, also after an event of its watch.
        """
        failures: list[OpsdkError] = []
        for target, followed in self._followed.items():
            if not fresh and followed.is_watched and not followed.observe(followed.tree, self._wanted).patch:
                continue
            try:
                await self.restore(target)
            except OpsdkError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        restored, self._restored = self._restored, False
        return restored

    async def restore(self, target: RegisteredTarget) -> None:
        """Read one object, and restore what differs.

        Raises:
            ConflictError: it changed concurrently.
            ContendedError: another writer removes the fields again and again; the next patch has to wait.
            OpsdkError: the request failed.
        """
        followed = self._followed[target]
        async with followed.lock:
            try:
                obj = await self._client.get(target.kind.kind, target.name, uncached=True)
            except NotFoundError:
                self._report(followed, *followed.observe(None, self._wanted).faults)
                return
            tree = to_dict(obj)
            comparison = followed.observe(tree, self._wanted)
            if not comparison.patch:
                self._report(followed, *comparison.faults)
                return
            try:
                followed.tree = to_dict(await self._patch(followed, obj, comparison, last_writer(tree)))
            except (ConflictError, ContendedError):
                raise
            except OpsdkError as error:
                text = f"lacks {comparison.restores}, which cannot be restored: {error}"
                self._report(followed, *comparison.faults, RegistrationFault(text, _advice(error)))
                raise
            self._report(followed, *comparison.faults)

    async def _patch(
        self, followed: _Followed, obj: Unstructured, comparison: RegistrationDiff, writer: str
    ) -> Unstructured:
        """Send the patch of a comparison."""
        target, contention = followed.declared.target, followed.contention
        if contention.wait(now=monotonic()):
            text = f"loses {comparison.restores} again and again: {writer} writes it too"
            followed.contended = RegistrationFault(text, "leave it out of the manifest of the other writer")
            self._report(followed, *comparison.faults)
            raise ContendedError(f"{target} {text}")
        if self.confirm is not None and self.ca_bundle is not None:
            await self.confirm(self.ca_bundle)
        try:
            patched = await self._client.patch(obj, json_patch(comparison.patch))
        except InvalidError as error:
            # The API server returns Invalid for a failed `test` operation.
            raise ConflictError(
                f"{target} was changed concurrently, or the API server rejected {comparison.restores}: {error}"
            ) from error
        except NotFoundError as error:
            raise ConflictError(f"{target} was deleted concurrently") from error
        contention.written(now=monotonic())
        self._restored = True
        log.info("set %s of %s; the last other writer was %s", comparison.restores, target, writer)
        return patched

    def _report(self, followed: _Followed, *faults: RegistrationFault) -> None:
        """Log the faults that are new, and the end of all."""
        if not self._is_called:
            is_reported = followed.was_seen or isinstance(followed.declared, RegisteredPolicy)
            faults = tuple(fault._replace(critical=False) for fault in faults if is_reported)
        followed.differences = faults
        followed.contention.wait(now=monotonic())  # forgets the writes after a calm time
        if not followed.contention.delay:
            followed.contended = None
        target, before = followed.declared.target, followed.faults
        others = (followed.contended, followed.unwatched)
        followed.faults = faults = (*faults, *(fault for fault in others if fault is not None))
        if faults == before:
            return
        texts = {fault.text for fault in before}
        for fault in faults:
            if fault.text not in texts:
                log.log(logging.ERROR if fault.critical else logging.WARNING, "%s %s: %s", target, *fault[:2])
        if not faults:
            log.info("%s is as declared again", target)
        critical = sum(fault.critical for fault in faults)
        self._hook.record(RegisteredFaults(object=str(target), critical=critical, others=len(faults) - critical))

    def __repr__(self) -> str:
        return f"<RegisteredObjects: {', '.join(map(str, self._followed)) or 'none'}>"


def last_writer(tree: JsonObject) -> str:
    """Return the field manager that changed an object last, for messages."""
    managers = [manager for manager in managers_of(tree) if not manager.subresource]
    # The server appends a manager, so of two changes in one second the later entry is newer.
    return max(reversed(managers), key=lambda manager: manager.time).name if managers else "unknown"


def _advice(error: OpsdkError) -> str:
    return _ROLE_ADVICE if isinstance(error, ForbiddenError) else "it will be tried again"
