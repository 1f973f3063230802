"""Rewrites the objects of a custom resource in its storage version.

A definition may drop an old version when no object is stored in it, and ``status.storedVersions`` does not list it. The
server encodes an object in the storage version whenever it writes it, so an empty patch of each object is enough.

Upstream: k8s.io/kubernetes/pkg/controller/storageversionmigrator/storageversionmigrator.go (v1.36)
Deviates: objects are patched with a merge patch instead of an apply patch, so managedFields get no entry.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import TypeVar

import msgspec

from opsdk.aio.backoff import Backoff
from opsdk.aio.clock import monotonic
from opsdk.aio.token_bucket import TokenBucket
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import KindLike, kind_of, metadata_only, unstructured_kind
from opsdk.apimachinery.object import AnyObject, ObjectList, PartialObjectMetadata, Unstructured, key_of, to_dict
from opsdk.base.options import Options
from opsdk.client.client import Client
from opsdk.client.patch import merge_patch
from opsdk.errors import (
    ApiError,
    ConflictError,
    GoneError,
    NoMatchError,
    OpsdkError,
    StorageMigrationError,
    UsageError,
)
from opsdk.recipes.storage_version import ObjectOutcome, StorageVersion, outcome_of, storage_version_of
from opsdk.rest.pages import Pages
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)

R = TypeVar("R")

DEFINITION = unstructured_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
# Maximum number of failed objects in the error message.
_MAX_NAMED_FAILURES = 5


class MigrationOptions(Options, frozen=True, kw_only=True):
    """Options of a migration.

    Attributes:
        qps: writes a second, on average. Each rewritten object is an event for every watcher of the kind.
        concurrency: writes at the same time.
        page_size: objects in one page of the list.
        propagation_delay: seconds between the read of the definition and the list. Each API server of a cluster learns
            about a new storage version from its own watch, and stores objects in the old one until then.
        attempts: number of times that a request is sent while it fails with a retryable error.
        backoff: delays between the attempts.
        max_failures: the migration stops after this many rejected objects; fewer are reported at the end.
        rounds: number of times that the migration starts again because the definition changed, or a list expired
            without a token to continue.
    """

    qps: float = 100.0
    concurrency: int = 8
    page_size: int = 500
    propagation_delay: float = 10.0
    attempts: int = 6
    backoff: Backoff = Backoff(base=0.5, cap=15.0, jitter=0.5, reset_after=0)
    max_failures: int = 10
    rounds: int = 5

    def __post_init__(self) -> None:
        for name in ("qps", "concurrency", "page_size", "attempts", "max_failures", "rounds"):
            if not getattr(self, name) > 0:
                raise UsageError(f"MigrationOptions.{name} is {getattr(self, name)}: it must be greater than 0")


class MigrationProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a migration.

    Attributes:
        definition: the name of the definition.
        storage_version: the version in which the objects are stored afterwards; empty before the definition is read.
        rewritten: objects that the server rewrote.
        unchanged: objects that were already in the storage version.
        superseded: objects that another writer stored concurrently, in the storage version.
        gone: objects that were deleted concurrently.
        failed: objects that the server rejects.
        restarts: how often the migration started again, or a list expired.
        remaining: objects after the last page, as the server estimates it; None if it does not.
        finished: ``status.storedVersions`` lists the storage version only.
    """

    definition: str
    storage_version: str = ""
    rewritten: int = 0
    unchanged: int = 0
    superseded: int = 0
    gone: int = 0
    failed: int = 0
    restarts: int = 0
    remaining: int | None = None
    finished: bool = False

    @property
    def objects(self) -> int:
        """The number of processed objects."""
        return self.rewritten + self.unchanged + self.superseded + self.gone + self.failed


async def migrate_storage_version(
    client: Client,
    target: KindLike[AnyObject] | str,
    *,
    options: MigrationOptions | None = None,
    on_progress: Callable[[MigrationProgress], None] | None = None,
) -> MigrationProgress:
    """Rewrite every object of a custom resource, then set ``status.storedVersions`` to the storage version alone.

    Returns at once if ``status.storedVersions`` lists nothing else. The migration has no state: after a crash or a
    cancellation, call it again; migrated objects are not written again.

    It needs the permissions ``get`` on customresourcedefinitions, ``patch`` on customresourcedefinitions/status, and
    ``get``, ``list`` and ``patch`` on the custom resource. Access to the definition is checked before the first
    write.

    Args:
        client: reads are sent to the server, even if the client has a cache.
        target: the kind, or the name of the definition (``websites.demo.opsdk.dev``).
        options: rate, concurrency and retries.
        on_progress: called after each page. An exception is logged.

    Raises:
        NotFoundError: the definition does not exist.
        NoMatchError: the server does not serve the kind.
        ForbiddenError: a permission is missing, or admission denies an object.
        StorageMigrationError: the definition is not ready, objects are rejected, or the definition keeps changing.
        ApiError: another request failed, after all attempts.
        TransportError: the server does not respond.

    >>> async def drop_old_versions(client: Client) -> None:
    ...     progress = await migrate_storage_version(client, "websites.demo.opsdk.dev")
    ...     print(progress.rewritten, "objects were rewritten")
    """
    if isinstance(target, str):
        if "." not in target:
            raise UsageError(
                f"{target!r} is not the name of a CustomResourceDefinition: write plural.group, or pass a class"
            )
        name = target
    else:
        kind = kind_of(target).gvk
        if not kind.group:
            raise UsageError(f"{kind.kind} is not a custom resource: only custom resources can be migrated")
        mappings = await client.mapper.mappings_for(kind.group_kind)
        if not mappings:
            raise NoMatchError(f"the server does not serve {kind.group_kind}: install its CustomResourceDefinition")
        resource = mappings[0].resource
        name = f"{resource.resource}.{resource.group}"
    migration = _Migration(client, name, options or MigrationOptions(), on_progress)
    return await migration.run()


class StorageMigrator:
    """A runnable that keeps a custom resource in its storage version. It runs on the leader.

    It reads the definition at the start and then periodically, and migrates when ``status.storedVersions`` lists
    another version. A migration that fails is logged and retried; it never stops the manager. ::

        @operator.setup
        def migrate(operator: Operator) -> None:
            operator.manager.add(StorageMigrator(operator.client, Website))

    Args:
        client: see `migrate_storage_version`.
        target: see `migrate_storage_version`.
        options: see `migrate_storage_version`.
        interval: seconds between two reads of the definition, and the longest wait after a failure.

    Attributes:
        progress: of the last migration that had objects to migrate; None before the first successful read.
        last_error: of the last attempt; None if it succeeded.
    """

    def __init__(
        self,
        client: Client,
        target: KindLike[AnyObject] | str,
        *,
        options: MigrationOptions | None = None,
        interval: float = 600.0,
    ) -> None:
        if not interval > 0:
            raise UsageError(f"the interval of a StorageMigrator is {interval}: pass more than 0 seconds")
        self.progress: MigrationProgress | None = None
        self.last_error: OpsdkError | None = None
        self._client = client
        self._target = target
        self._options = options
        self._interval = interval

    def needs_leader_election(self) -> bool:
        """Return True: two replicas would write each object twice."""
        return True

    async def start(self) -> None:
        """Run until cancelled."""
        retries = Backoff(base=min(1.0, self._interval), cap=self._interval, jitter=0.1, reset_after=0).start()
        while True:
            try:
                progress = await migrate_storage_version(
                    self._client, self._target, options=self._options, on_progress=self._record
                )
            except OpsdkError as error:
                self.last_error = error
                wait = retries.next(monotonic())
                log.warning("%r failed, next attempt in %.0f s: %s", self, wait, error)
            else:
                # Without work, keep the progress of the last migration.
                if progress.objects or self.progress is None or not self.progress.finished:
                    self.progress = progress
                self.last_error, wait = None, self._interval
                retries.reset()
            await asyncio.sleep(wait)

    def _record(self, progress: MigrationProgress) -> None:
        self.progress = progress

    def __repr__(self) -> str:
        return f"<StorageMigrator of {self._target if isinstance(self._target, str) else kind_of(self._target).gvk}>"


class _Migration:
    """Rewrites all objects of one kind, page by page, and counts the results."""

    def __init__(
        self,
        client: Client,
        name: str,
        options: MigrationOptions,
        on_progress: Callable[[MigrationProgress], None] | None,
    ) -> None:
        self._client = client
        self._name = name
        self._options = options
        self._on_progress = on_progress
        self._rate_limiter = TokenBucket(options.qps, burst=max(1, min(options.concurrency, int(options.qps))))
        self._counts: Counter[ObjectOutcome] = Counter()
        self._failures: dict[ObjectKey, ApiError] = {}
        self._restarts = 0
        self._storage: StorageVersion | None = None

    async def run(self) -> MigrationProgress:
        for _ in range(self._options.rounds):
            self._storage = storage = storage_version_of(to_dict(await self.read_definition()))
            if not storage.needs_migration:
                return self.progress(finished=True)
            await self.retry(partial(self.set_stored_versions, storage, dry_run=True))
            await asyncio.sleep(self._options.propagation_delay)
            log.info("rewriting the objects of %s in %s", self._name, storage.version)
            async for page in self.pages(storage):
                await self.write_page(page.items)
                self.report(self.progress(remaining=page.metadata.remaining_item_count))
            if self._failures:
                raise self.rejected()
            if await self.clean(storage):
                progress = self.progress(finished=True)
                log.info("all objects of %s are stored in %s: %s", self._name, storage.version, progress)
                return progress
            self._restarts += 1
            log.warning("%s changed during the migration: restarting", self._name)
        raise StorageMigrationError(
            f"{self._name} changed in each of {self._options.rounds} rounds: migrate again later"
        )

    # -------------------------------------------------------------- the definition
    async def read_definition(self) -> Unstructured:
        return await self.retry(lambda: self._client.get(DEFINITION, self._name, uncached=True))

    async def set_stored_versions(
        self, storage: StorageVersion, *, resource_version: str = "", dry_run: bool = False
    ) -> None:
        target = PartialObjectMetadata(DEFINITION.gvk.api_version, DEFINITION.gvk.kind)
        target.metadata.name = self._name
        metadata = {"resourceVersion": resource_version} if resource_version else {}
        patch = merge_patch({"metadata": metadata, "status": {"storedVersions": [storage.version]}})
        await self._client.status().patch(target, patch, dry_run=dry_run)

    async def clean(self, storage: StorageVersion) -> bool:
        """Set the stored versions. Returns False if the definition has changed since `storage` was read."""
        for _ in range(self._options.attempts):
            definition = await self.read_definition()
            if not storage.is_still(storage_version_of(to_dict(definition))):
                return False
            version = definition.metadata.resource_version
            try:
                await self.retry(partial(self.set_stored_versions, storage, resource_version=version))
            except ConflictError:
                continue  # another writer changed the definition, perhaps not its spec
            return True
        return False

    # -------------------------------------------------------------- the objects
    async def list_page(self, storage: StorageVersion, token: str) -> ObjectList[PartialObjectMetadata]:
        kind, limit = metadata_only(storage.kind), self._options.page_size
        return await self._client.list(kind, limit=limit, continue_token=token, uncached=True)

    async def pages(self, storage: StorageVersion) -> AsyncIterator[ObjectList[PartialObjectMetadata]]:
        token, expired, tokens = "", False, Pages(self._name)
        while True:
            try:
                page = await self.retry(partial(self.list_page, storage, token))
            except GoneError as error:
                # Objects before the token are migrated. Objects created since then are stored in the storage version.
                token = "" if expired else error.continue_token
                self._restarts += 1
                if not token and self._restarts > self._options.rounds:
                    raise
                expired, tokens = True, Pages(self._name)
                continue
            expired = False
            if page.undecodable:
                raise StorageMigrationError(f"{self._name} has objects that cannot be read: {page.undecodable[0]}")
            yield page
            if not (token := page.metadata.continue_token):
                return
            tokens.check(token, progress=bool(page))

    async def write_page(self, page: list[PartialObjectMetadata]) -> None:
        objects, errors = iter(page), list[OpsdkError]()

        async def write_next() -> None:
            for obj in objects:
                if errors:
                    return
                try:
                    await self.write(obj)
                except OpsdkError as error:
                    errors.append(error)

        async with asyncio.TaskGroup() as group:
            for number in range(min(self._options.concurrency, len(page))):
                group.create_task(write_next(), name=f"migration/{self._name}/{number}")
        if errors:
            raise errors[0]

    async def write(self, obj: PartialObjectMetadata) -> None:
        key = key_of(obj)
        self._failures.pop(key, None)
        try:
            outcome = await self.patch(obj)
        except ApiError as error:
            if (final := outcome_of(error)) is None:
                raise
            outcome = final
            if outcome is ObjectOutcome.FAILED:
                self._failures[key] = error
        self._counts[outcome] += 1
        if len(self._failures) >= self._options.max_failures:
            raise self.rejected()

    async def patch(self, obj: PartialObjectMetadata) -> ObjectOutcome:
        key, kind, before = key_of(obj), metadata_only(obj.gvk), obj.metadata.resource_version
        # The precondition protects a recreated object with the same name from the patch.
        patch = merge_patch({"metadata": {"resourceVersion": before}})
        attempt = 0
        while True:
            attempt += 1
            await asyncio.sleep(self._rate_limiter.reserve(monotonic()))
            try:
                written = await self.retry(partial(self._client.patch, obj, patch))
            except ConflictError:
                # An admission webhook can also return a conflict, so it does not prove another writer.
                current = await self.retry(partial(self._client.get_or_none, kind, key, uncached=True))
                if current is None:
                    return ObjectOutcome.GONE
                if current.metadata.resource_version != before:
                    return ObjectOutcome.SUPERSEDED
                if attempt == self._options.attempts:
                    raise
            else:
                changed = written.metadata.resource_version != before
                return ObjectOutcome.REWRITTEN if changed else ObjectOutcome.UNCHANGED

    async def retry(self, call: Callable[[], Awaitable[R]]) -> R:
        waits = self._options.backoff.start()
        for _ in range(self._options.attempts - 1):
            try:
                return await call()
            except OpsdkError as error:
                if not error.retryable:
                    raise
                after = error.retry_after if isinstance(error, ApiError) else None
            await asyncio.sleep(max(waits.next(monotonic()), after or 0.0))
        return await call()

    # -------------------------------------------------------------- reports
    def rejected(self) -> StorageMigrationError:
        failures = [f"{key}: {error.message}" for key, error in list(self._failures.items())[:_MAX_NAMED_FAILURES]]
        more = len(self._failures) - len(failures)
        text = (
            f"{self._name}: the server rejects {len(self._failures)} objects, correct or delete them and migrate again"
        )
        return StorageMigrationError("\n  ".join([f"{text}:", *failures, *([f"and {more} more"] if more else [])]))

    def progress(self, *, remaining: int | None = None, finished: bool = False) -> MigrationProgress:
        return MigrationProgress(
            definition=self._name,
            storage_version=self._storage.version if self._storage is not None else "",
            **{outcome.value: self._counts[outcome] for outcome in ObjectOutcome},
            restarts=self._restarts,
            remaining=remaining,
            finished=finished,
        )

    def report(self, progress: MigrationProgress) -> None:
        if self._on_progress is None:
            return
        try:
            self._on_progress(progress)
        except Exception:
            log.exception("the progress function of the migration of %s raised", self._name)
