"""The client: one method for each verb.

The class, `Kind` or object passed selects the representation (typed, unstructured, metadata only). Writes return the
object they were given, updated in place to the server's state. When a write fails, the object is unchanged.

>>> async def rename(client: Client, key: str) -> None:
...     site = await client.get(Website, key)
...     before = deep_copy(site)
...     site.spec.title = "new"
...     await client.patch(site, MergeFrom(before))

Upstream: sigs.k8s.io/controller-runtime/pkg/client/interfaces.go
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar, Unpack, cast, overload

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import Kind, KindLike, kind_of
from opsdk.apimachinery.meta import LabelSelector
from opsdk.apimachinery.object import AnyObject, ObjectList, PartialObjectMetadata, gvk_of, key_of
from opsdk.apimachinery.rest_mapper import RestMapper
from opsdk.apimachinery.scheme import Scheme
from opsdk.apimachinery.selectors import (
    ANY_FIELDS,
    EVERYTHING,
    FieldSelector,
    LabelRequirements,
    as_field_selector,
    as_selector,
)
from opsdk.apimachinery.status import PropagationPolicy
from opsdk.apimachinery.watch import WatchEvent
from opsdk.client.operations import (
    Apply,
    Create,
    Delete,
    DeleteAllOf,
    Get,
    List,
    ObjectWrite,
    PatchObject,
    Update,
    Watch,
)
from opsdk.client.options import (
    ApplyKeywords,
    DeleteKeywords,
    DeleteOptions,
    GetOptions,
    ListOptions,
    ResourceVersionMatch,
    WatchOptions,
    WriteKeywords,
    WriteOptions,
    options_of,
)
from opsdk.client.patch import Patch
from opsdk.client.ports import OperationExecutor
from opsdk.errors import NotFoundError, UsageError
from opsdk.rest.pages import Pages

T = TypeVar("T", bound=AnyObject)
Labels = str | Mapping[str, str] | LabelSelector | LabelRequirements
Fields = str | Mapping[str, str] | FieldSelector
_DEFAULT_GET = GetOptions()


class Client:
    """Reads and writes objects through an executor.

    Every method raises `ApiError` for an error response, `TransportError` if no response arrives, and `NoMatchError` if
    the server does not serve the kind. Cancelling a call closes its connection; the server may have processed the
    request.
    """

    def __init__(self, executor: OperationExecutor) -> None:
        self.executor = executor

    @property
    def scheme(self) -> Scheme:
        """The registry of kinds and classes."""
        return self.executor.scheme

    @property
    def mapper(self) -> RestMapper:
        """The mapping from kinds to resources."""
        return self.executor.mapper

    # -------------------------------------------------------------- reading
    async def get(
        self,
        kind: KindLike[T],
        key: ObjectKey | str,
        *,
        namespace: str = "",
        resource_version: str = "",
        uncached: bool = False,
        read_own_writes: bool = True,
        max_staleness: float | None = None,
    ) -> T:
        """Return one object.

        Args:
            kind: a typed class, ``unstructured_kind(...)`` or ``metadata_only(...)``.
            key: an `ObjectKey`, ``"namespace/name"``, or a name (with `namespace`, or for a cluster-scoped kind).
            namespace: for a `key` that is only a name.
            resource_version: see `ReadOptions`.
            uncached: read from the server even if the client has a cache.
            read_own_writes: see `ReadOptions`.
            max_staleness: see `ReadOptions`.

        Raises:
            NotFoundError: the object does not exist.
            DecodeError: the object does not fit the class.
        """
        options = GetOptions(
            resource_version=resource_version,
            uncached=uncached,
            read_own_writes=read_own_writes,
            max_staleness=max_staleness,
        )
        obj: T = await self.executor.execute(Get(kind=kind_of(kind), key=as_key(key, namespace), options=options))
        return obj

    async def get_or_none(
        self, kind: KindLike[T], key: ObjectKey | str, *, namespace: str = "", uncached: bool = False
    ) -> T | None:
        """Return one object, or None if it does not exist."""
        options = GetOptions(uncached=True) if uncached else _DEFAULT_GET
        # Each reconcile calls this, and applied children pass values that need no conversion.
        token = kind if type(kind) is Kind else kind_of(kind)
        exact_key = key if type(key) is ObjectKey and not namespace else as_key(key, namespace)
        try:
            obj: T = await self.executor.execute(Get(kind=token, key=exact_key, options=options))
        except NotFoundError:
            return None
        return obj

    async def list(
        self,
        kind: KindLike[T],
        *,
        namespace: str = "",
        label_selector: Labels | None = EVERYTHING,
        field_selector: Fields | None = ANY_FIELDS,
        limit: int | None = None,
        continue_token: str = "",
        resource_version: str = "",
        resource_version_match: ResourceVersionMatch | None = None,
        uncached: bool = False,
        read_own_writes: bool = True,
        max_staleness: float | None = None,
        owner_uid: str = "",
        exclude: frozenset[ObjectKey] = frozenset(),
    ) -> ObjectList[T]:
        """Return the selected objects, from one snapshot. See `ListOptions` for the keywords.

        A selector that is None selects nothing, as in Kubernetes: leave it out to select every object.

        Without a cache, a list without `limit` takes one request. Use `list_pages` for large lists.
        """
        options = ListOptions(
            namespace=namespace,
            label_selector=as_selector(label_selector),
            field_selector=as_field_selector(field_selector),
            limit=limit,
            continue_token=continue_token,
            resource_version=resource_version,
            resource_version_match=resource_version_match,
            uncached=uncached,
            read_own_writes=read_own_writes,
            max_staleness=max_staleness,
            owner_uid=owner_uid,
            exclude=exclude,
        )
        objects: ObjectList[T] = await self.executor.execute(List(kind=kind_of(kind), options=options))
        return objects

    async def list_pages(
        self,
        kind: KindLike[T],
        *,
        namespace: str = "",
        label_selector: Labels | None = EVERYTHING,
        field_selector: Fields | None = ANY_FIELDS,
        page_size: int = 500,
    ) -> AsyncIterator[T]:
        """Iterate over the selected objects, read from the server in pages of one snapshot.

        Raises `GoneError` if the snapshot expires (after about five minutes), and `ResponseLimitError` if the server
        repeats a page.
        """
        token, pages = "", Pages(kind_of(kind))
        while True:
            page = await self.list(
                kind,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=page_size,
                continue_token=token,
                uncached=True,
            )
            for item in page:
                yield item
            token = page.metadata.continue_token
            if not token:
                return
            pages.check(token, progress=bool(page))

    def watch(
        self,
        kind: KindLike[T],
        *,
        namespace: str = "",
        label_selector: Labels | None = EVERYTHING,
        field_selector: Fields | None = ANY_FIELDS,
        resource_version: str = "",
        bookmarks: bool = False,
        timeout: int | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]:
        """Watch changes of the selected objects. See `WatchOptions` for the keywords.

        The iterator ends when the server ends the watch. It raises `GoneError` if `resource_version` has expired. Use a
        cache for a view that recovers by itself. ::

            async with client.watch(Pod, namespace="default") as events:
                async for event in events:
                    print(event.type, event.object.metadata.name)
        """
        options = WatchOptions(
            namespace=namespace,
            label_selector=as_selector(label_selector),
            field_selector=as_field_selector(field_selector),
            resource_version=resource_version,
            bookmarks=bookmarks,
            timeout=timeout,
        )
        return self.executor.watch(Watch(kind=kind_of(kind), options=options))

    # -------------------------------------------------------------- writing
    async def create(self, obj: T, **options: Unpack[WriteKeywords]) -> T:
        """Create the object. With ``generate_name``, the server sets the name. See `WriteOptions` for the keywords.

        Raises:
            AlreadyExistsError: an object with this name exists.
            InvalidError: the object is not valid.
        """
        _reject_metadata(obj, "create")
        created: T = await self.executor.execute(Create(obj=obj, options=options_of(WriteOptions, options)))
        return created

    async def update(self, obj: T, **options: Unpack[WriteKeywords]) -> T:
        """Replace the object. The status is not written. See `WriteOptions` for the keywords.

        Raises:
            ConflictError: the object changed since `obj` was read.
            NotFoundError: the object does not exist.
        """
        _reject_metadata(obj, "update")
        updated: T = await self.executor.execute(Update(obj=obj, options=options_of(WriteOptions, options)))
        return updated

    async def patch(self, obj: T, patch: Patch, **options: Unpack[WriteKeywords]) -> T:
        """Patch the object that `obj` names. See `opsdk.client.patch` for patches, and `WriteOptions` for the keywords.

        Raises:
            ConflictError: the patch has a resource version, and the object changed since.
            NotFoundError: the object does not exist.
        """
        patched: T = await self.executor.execute(
            PatchObject(obj=obj, patch=patch, options=options_of(WriteOptions, options))
        )
        return patched

    async def apply(self, obj: T, **options: Unpack[ApplyKeywords]) -> T:
        """Apply the object (server-side apply); create it if it does not exist.

        `obj` has only the fields that its owner manages. Fields of an earlier apply that are left out are removed.
        Keywords: `field_owner` (required), `force` (take fields over from other managers), `dry_run`.

        Raises:
            ConflictError: other managers own fields with different values, and `force` is False.
            UsageError: there is no `field_owner`.
        """
        applied: T = await self.executor.execute(Apply(obj=obj, options=options_of(WriteOptions, options)))
        return applied

    @overload
    async def delete(self, target: AnyObject, /, **options: Unpack[DeleteKeywords]) -> None: ...
    @overload
    async def delete(
        self,
        target: KindLike[AnyObject],
        key: ObjectKey | str,
        /,
        *,
        namespace: str = "",
        **options: Unpack[DeleteKeywords],
    ) -> None: ...
    async def delete(
        self,
        target: AnyObject | KindLike[AnyObject],
        key: ObjectKey | str | None = None,
        /,
        *,
        namespace: str = "",
        **options: Unpack[DeleteKeywords],
    ) -> None:
        """Request the deletion of an object, given itself or its kind and key. See `DeleteOptions` for the keywords.

        Returns when the server accepts the request. Finalizers and the grace period may keep the object longer.

        Raises:
            NotFoundError: the object does not exist, and `missing_ok` is False.
            ConflictError: `uid` or `resource_version` does not match.
        """
        if not isinstance(target, type | Kind):
            gvk, where = gvk_of(target), key_of(target)
        elif key is None:
            raise UsageError("delete needs an object, or a kind and a key")
        else:
            gvk, where = kind_of(target).gvk, as_key(key, namespace)
        await self.executor.execute(Delete(gvk=gvk, key=where, options=options_of(DeleteOptions, options)))

    async def delete_all_of(
        self,
        kind: KindLike[AnyObject],
        *,
        namespace: str = "",
        label_selector: Labels | None = EVERYTHING,
        field_selector: Fields | None = ANY_FIELDS,
        dry_run: bool = False,
        grace_period_seconds: int | None = None,
        propagation: PropagationPolicy | None = None,
    ) -> None:
        """Delete the selected objects of one namespace (or of a cluster-scoped kind) with one request.

        A selector that is None selects, and deletes, nothing. Without selectors, every object is deleted.
        """
        select = ListOptions(
            namespace=namespace,
            label_selector=as_selector(label_selector),
            field_selector=as_field_selector(field_selector),
        )
        options = DeleteOptions(dry_run=dry_run, grace_period_seconds=grace_period_seconds, propagation=propagation)
        await self.executor.execute(DeleteAllOf(gvk=kind_of(kind).gvk, select=select, options=options))

    # -------------------------------------------------------------- subresources
    def status(self) -> SubResourceClient:
        """Return the client for ``status``. Its writes change only the status."""
        return SubResourceClient(self.executor, "status")

    def subresource(self, name: str) -> SubResourceClient:
        """Return the client for a subresource such as ``scale``, ``eviction``, ``token`` or ``binding``."""
        return SubResourceClient(self.executor, name)

    def __repr__(self) -> str:
        return f"<Client over {self.executor!r}>"


class SubResourceClient:
    """The verbs of one subresource. `body` is the subresource's own object (Scale, Eviction)."""

    def __init__(self, executor: OperationExecutor, name: str) -> None:
        self.executor = executor
        self.name = name

    async def get(self, obj: AnyObject, body: KindLike[T]) -> T:
        """Return the subresource of `obj` as an object of kind `body`. Always reads from the server."""
        token = kind_of(body)
        if token.representation is PartialObjectMetadata:
            raise UsageError(f"cannot get the subresource {self.name} using only metadata")
        options = GetOptions(uncached=True)
        # The URL needs the parent's kind, and the response has the kind of `body`: combine both in one Kind.
        parent: Kind[T] = Kind(gvk_of(obj), token.representation)
        subresource: T = await self.executor.execute(
            Get(kind=parent, key=key_of(obj), subresource=self.name, options=options)
        )
        return subresource

    async def create(self, obj: AnyObject, body: T, *, dry_run: bool = False, field_owner: str = "") -> T:
        """Post `body` to the subresource of `obj`. Raises as `Client.create`.

        If `body` has no name or namespace, it takes those of `obj`.
        """
        _reject_metadata(body, "create")
        options = WriteOptions(dry_run=dry_run, field_owner=field_owner)
        created = await self._write(Create(obj=obj, subresource=self.name, body=body, options=options))
        return cast("T", created)

    @overload
    async def update(self, obj: T, body: None = None, **options: Unpack[WriteKeywords]) -> T: ...
    @overload
    async def update(self, obj: AnyObject, body: T, **options: Unpack[WriteKeywords]) -> T: ...
    async def update(
        self, obj: AnyObject, body: AnyObject | None = None, **options: Unpack[WriteKeywords]
    ) -> AnyObject:
        """Replace the subresource with `body`, or with its part of `obj`. Raises as `Client.update`."""
        _reject_metadata(body if body is not None else obj, "update")
        return await self._write(
            Update(obj=obj, subresource=self.name, body=body, options=options_of(WriteOptions, options))
        )

    @overload
    async def patch(self, obj: T, patch: Patch, body: None = None, **options: Unpack[WriteKeywords]) -> T: ...
    @overload
    async def patch(self, obj: AnyObject, patch: Patch, body: T, **options: Unpack[WriteKeywords]) -> T: ...
    async def patch(
        self, obj: AnyObject, patch: Patch, body: AnyObject | None = None, **options: Unpack[WriteKeywords]
    ) -> AnyObject:
        """Patch the subresource. Raises as `Client.patch`.

        If the subresource has its own kind (Scale), the response is written into `body`; without `body` it is dropped.
        """
        write_options = options_of(WriteOptions, options)
        return await self._write(
            PatchObject(obj=obj, patch=patch, subresource=self.name, body=body, options=write_options)
        )

    @overload
    async def apply(self, obj: T, body: None = None, **options: Unpack[ApplyKeywords]) -> T: ...
    @overload
    async def apply(self, obj: AnyObject, body: T, **options: Unpack[ApplyKeywords]) -> T: ...
    async def apply(self, obj: AnyObject, body: AnyObject | None = None, **options: Unpack[ApplyKeywords]) -> AnyObject:
        """Apply `body`, or `obj`, to the subresource (server-side apply). Raises as `Client.apply`."""
        return await self._write(
            Apply(obj=obj, subresource=self.name, body=body, options=options_of(WriteOptions, options))
        )

    def _write(self, operation: ObjectWrite) -> Coroutine[Any, Any, AnyObject]:
        """Execute a write."""
        if operation.body is None:
            return self.executor.execute(operation)
        return self._write_body(operation, operation.body)

    async def _write_body(self, operation: ObjectWrite, body: AnyObject) -> AnyObject:
        """Execute a write of a body.

        It takes its parent's name and namespace if it has none. If the write fails, it is restored.
        """
        metadata, parent = body.metadata, operation.obj.metadata
        before = metadata.name, metadata.namespace
        metadata.name, metadata.namespace = metadata.name or parent.name, metadata.namespace or parent.namespace
        try:
            written: AnyObject = await self.executor.execute(operation)
        except BaseException:
            metadata.name, metadata.namespace = before
            raise
        return written


def as_key(key: ObjectKey | str, namespace: str = "") -> ObjectKey:
    """Return an `ObjectKey` for any form that callers may pass. Raises `UsageError`."""
    if isinstance(key, ObjectKey):
        if not namespace:
            return key
        parsed = key
    else:
        parsed = ObjectKey.parse(key)
    if parsed.namespace and namespace and parsed.namespace != namespace:
        raise UsageError(f"the key {str(key)!r} and the namespace {namespace!r} disagree: pass only one of them")
    return ObjectKey(parsed.namespace or namespace, parsed.name)


def _reject_metadata(obj: AnyObject, verb: str) -> None:
    if isinstance(obj, PartialObjectMetadata):
        hint = " -- did you mean to patch?" if verb == "update" else ""
        raise UsageError(f"cannot {verb} using only metadata{hint}")
