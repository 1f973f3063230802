"""The client: verbs as methods.

Which form an object has (typed, unstructured, metadata only) is said by the class, token or object passed. Writes
return the object they were given, changed in place to what the server made of it; when a write fails, the object is
as it was.

>>> async def rename(client: Client, key: str) -> None:
...     site = await client.get(Website, key)
...     before = deep_copy(site)
...     site.spec.title = "new"
...     await client.patch(site, MergeFrom(before))
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar, overload

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.kinds import Kind, KindLike, kind_of
from opsdk.apimachinery.meta import LabelSelector
from opsdk.apimachinery.object import AnyObject, ObjectList, PartialObjectMetadata, gvk_of, key_of
from opsdk.apimachinery.rest_mapper import RestMapper
from opsdk.apimachinery.scheme import Scheme
from opsdk.apimachinery.selectors import FieldSelector, Selector, as_field_selector, as_selector
from opsdk.apimachinery.status import PropagationPolicy
from opsdk.apimachinery.watch import WatchEvent
from opsdk.client.operations import Apply, Create, Delete, DeleteAllOf, Get, List, PatchObject, Update, Watch
from opsdk.client.options import (
    DeleteOptions,
    FieldValidation,
    GetOptions,
    ListOptions,
    ResourceVersionMatch,
    WatchOptions,
    WriteOptions,
)
from opsdk.client.ports import OperationExecutor
from opsdk.errors import NotFoundError, UsageError
from opsdk.patch import Patch

T = TypeVar("T", bound=AnyObject)
Labels = str | Mapping[str, str] | LabelSelector | Selector
Fields = str | Mapping[str, str] | FieldSelector


class Client:
    """Reads and writes objects through a executor."""

    def __init__(self, executor: OperationExecutor) -> None:
        self.executor = executor

    @property
    def scheme(self) -> Scheme:
        """Which types are which kinds."""
        return self.executor.scheme

    @property
    def mapper(self) -> RestMapper:
        """Which resources serve which kinds."""
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
    ) -> T:
        """One object; `NotFoundError` if there is none.

        Args:
            kind: a typed class, ``unstructured(...)`` or ``metadata_only(...)``.
            key: an `ObjectKey`, ``"namespace/name"``, or a name (with `namespace`, or of a cluster-scoped kind).
            namespace: for a `key` that is only a name.
            resource_version: see `GetOptions`.
            uncached: ask the server even where the client has a cache.
        """
        options = GetOptions(resource_version=resource_version, uncached=uncached)
        obj: T = await self.executor.execute(Get(kind=kind_of(kind), key=as_key(key, namespace), options=options))
        return obj

    async def get_or_none(
        self, kind: KindLike[T], key: ObjectKey | str, *, namespace: str = "", uncached: bool = False
    ) -> T | None:
        """One object, or None if there is none."""
        try:
            return await self.get(kind, key, namespace=namespace, uncached=uncached)
        except NotFoundError:
            return None

    async def list(
        self,
        kind: KindLike[T],
        *,
        namespace: str = "",
        label_selector: Labels | None = None,
        field_selector: Fields | None = None,
        limit: int | None = None,
        continue_token: str = "",
        resource_version: str = "",
        resource_version_match: ResourceVersionMatch | None = None,
        uncached: bool = False,
    ) -> ObjectList[T]:
        """The objects that are selected, from one snapshot; see `ListOptions`.

        Without a cache, a list without `limit` is read in one request; page through it with `list_pages`.
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
        )
        objects: ObjectList[T] = await self.executor.execute(List(kind=kind_of(kind), options=options))
        return objects

    async def list_pages(
        self,
        kind: KindLike[T],
        *,
        namespace: str = "",
        label_selector: Labels | None = None,
        field_selector: Fields | None = None,
        page_size: int = 500,
    ) -> AsyncIterator[T]:
        """Every selected object, read from the server in pages of one snapshot."""
        token = ""
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

    def watch(
        self,
        kind: KindLike[T],
        *,
        namespace: str = "",
        label_selector: Labels | None = None,
        field_selector: Fields | None = None,
        resource_version: str = "",
        bookmarks: bool = False,
        timeout: int | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[T]]]:
        """Changes as they happen; see `WatchOptions`.

        Ends when the server ends it; a `GoneError` says that `resource_version` is too old. For a view that heals
        itself use a cache. ::

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
    async def create(
        self, obj: T, *, dry_run: bool = False, field_owner: str = "", field_validation: FieldValidation | None = None
    ) -> T:
        """Create `obj`; `AlreadyExistsError` if one of that name is there. With ``generate_name``, the name is set."""
        _not_metadata(obj, "create")
        options = WriteOptions(dry_run=dry_run, field_owner=field_owner, field_validation=field_validation)
        created: T = await self.executor.execute(Create(obj=obj, options=options))
        return created

    async def update(
        self, obj: T, *, dry_run: bool = False, field_owner: str = "", field_validation: FieldValidation | None = None
    ) -> T:
        """Replace the object; `ConflictError` if it changed since `obj` was read. The status is not written."""
        _not_metadata(obj, "update")
        options = WriteOptions(dry_run=dry_run, field_owner=field_owner, field_validation=field_validation)
        updated: T = await self.executor.execute(Update(obj=obj, options=options))
        return updated

    async def patch(
        self,
        obj: T,
        patch: Patch,
        *,
        dry_run: bool = False,
        field_owner: str = "",
        field_validation: FieldValidation | None = None,
    ) -> T:
        """Change parts of the object that `obj` names."""
        options = WriteOptions(dry_run=dry_run, field_owner=field_owner, field_validation=field_validation)
        patched: T = await self.executor.execute(PatchObject(obj=obj, patch=patch, options=options))
        return patched

    async def apply(self, obj: T, *, field_owner: str = "", force: bool = False, dry_run: bool = False) -> T:
        """Server-side apply: `obj` says what its owner wants, and nothing else; creates it if it is missing.

        Fields this owner applied before and leaves out now are removed. `ConflictError` names fields that others
        own with other values; `force` takes them over.
        """
        options = WriteOptions(dry_run=dry_run, field_owner=field_owner, force=force)
        applied: T = await self.executor.execute(Apply(obj=obj, options=options))
        return applied

    @overload
    async def delete(
        self,
        target: AnyObject,
        /,
        *,
        dry_run: bool = False,
        grace_period_seconds: int | None = None,
        propagation: PropagationPolicy | None = None,
        uid: str = "",
        resource_version: str = "",
        missing_ok: bool = False,
    ) -> None: ...
    @overload
    async def delete(
        self,
        target: KindLike[AnyObject],
        key: ObjectKey | str,
        /,
        *,
        namespace: str = "",
        dry_run: bool = False,
        grace_period_seconds: int | None = None,
        propagation: PropagationPolicy | None = None,
        uid: str = "",
        resource_version: str = "",
        missing_ok: bool = False,
    ) -> None: ...
    async def delete(
        self,
        target: AnyObject | KindLike[AnyObject],
        key: ObjectKey | str | None = None,
        /,
        *,
        namespace: str = "",
        dry_run: bool = False,
        grace_period_seconds: int | None = None,
        propagation: PropagationPolicy | None = None,
        uid: str = "",
        resource_version: str = "",
        missing_ok: bool = False,
    ) -> None:
        """Ask for the deletion of an object, given itself or its kind and key; see `DeleteOptions`.

        Returns when the server has taken note of the wish: finalizers and grace periods may keep the object longer.
        """
        gvk, where = _target(target, key, namespace)
        options = DeleteOptions(
            dry_run=dry_run,
            grace_period_seconds=grace_period_seconds,
            propagation=propagation,
            uid=uid,
            resource_version=resource_version,
            missing_ok=missing_ok,
        )
        await self.executor.execute(Delete(gvk=gvk, key=where, options=options))

    async def delete_all_of(
        self,
        kind: KindLike[AnyObject],
        *,
        namespace: str = "",
        label_selector: Labels | None = None,
        field_selector: Fields | None = None,
        dry_run: bool = False,
        grace_period_seconds: int | None = None,
        propagation: PropagationPolicy | None = None,
    ) -> None:
        """Delete the selected objects of one namespace (or of a cluster-scoped kind) in one request."""
        select = ListOptions(
            namespace=namespace,
            label_selector=as_selector(label_selector),
            field_selector=as_field_selector(field_selector),
        )
        options = DeleteOptions(dry_run=dry_run, grace_period_seconds=grace_period_seconds, propagation=propagation)
        await self.executor.execute(DeleteAllOf(gvk=kind_of(kind).gvk, select=select, options=options))

    # -------------------------------------------------------------- subresources
    def status(self) -> SubResourceClient:
        """The client for ``status``: its writes change the status and nothing else."""
        return SubResourceClient(self.executor, "status")

    def subresource(self, name: str) -> SubResourceClient:
        """The client for a subresource: scale, eviction, token, binding, approval, ..."""
        return SubResourceClient(self.executor, name)

    def __repr__(self) -> str:
        return f"<Client over {self.executor!r}>"


class SubResourceClient:
    """The verbs of one subresource. `body` is the subresource's own object (Scale, Eviction, ...)."""

    def __init__(self, executor: OperationExecutor, name: str) -> None:
        self.executor = executor
        self.name = name

    async def get(self, obj: AnyObject, body: KindLike[T]) -> T:
        """The subresource of `obj`, as the kind `body`."""
        token = kind_of(body)
        if token.representation is PartialObjectMetadata:
            raise UsageError(f"cannot get the subresource {self.name} using only metadata")
        options = GetOptions(uncached=True)
        # The URL is the parent's, the answer another kind: the parent's kind rides along in the form.
        parent: Kind[T] = Kind(gvk_of(obj), token.representation)
        subresource: T = await self.executor.execute(
            Get(kind=parent, key=key_of(obj), subresource=self.name, options=options)
        )
        return subresource

    async def create(self, obj: AnyObject, body: T, *, dry_run: bool = False, field_owner: str = "") -> T:
        """Post `body` to the subresource of `obj`; it takes the parent's name and namespace if it has none."""
        _not_metadata(body, "create")
        options = WriteOptions(dry_run=dry_run, field_owner=field_owner)
        with _named_after(body, obj):
            created: T = await self.executor.execute(Create(obj=obj, subresource=self.name, body=body, options=options))
        return created

    @overload
    async def update(
        self,
        obj: T,
        body: None = None,
        *,
        dry_run: bool = False,
        field_owner: str = "",
        field_validation: FieldValidation | None = None,
    ) -> T: ...
    @overload
    async def update(
        self,
        obj: AnyObject,
        body: T,
        *,
        dry_run: bool = False,
        field_owner: str = "",
        field_validation: FieldValidation | None = None,
    ) -> T: ...
    async def update(
        self,
        obj: AnyObject,
        body: AnyObject | None = None,
        *,
        dry_run: bool = False,
        field_owner: str = "",
        field_validation: FieldValidation | None = None,
    ) -> AnyObject:
        """Replace the subresource with `body`, or with what `obj` says of it."""
        _not_metadata(body if body is not None else obj, "update")
        options = WriteOptions(dry_run=dry_run, field_owner=field_owner, field_validation=field_validation)
        with _named_after(body, obj):
            made: AnyObject = await self.executor.execute(
                Update(obj=obj, subresource=self.name, body=body, options=options)
            )
        return made

    @overload
    async def patch(
        self,
        obj: T,
        patch: Patch,
        body: None = None,
        *,
        dry_run: bool = False,
        field_owner: str = "",
        field_validation: FieldValidation | None = None,
    ) -> T: ...
    @overload
    async def patch(
        self,
        obj: AnyObject,
        patch: Patch,
        body: T,
        *,
        dry_run: bool = False,
        field_owner: str = "",
        field_validation: FieldValidation | None = None,
    ) -> T: ...
    async def patch(
        self,
        obj: AnyObject,
        patch: Patch,
        body: AnyObject | None = None,
        *,
        dry_run: bool = False,
        field_owner: str = "",
        field_validation: FieldValidation | None = None,
    ) -> AnyObject:
        """Change parts of the subresource.

        Where it has a kind of its own (Scale), the answer is written into `body`; without one it is dropped.
        """
        options = WriteOptions(dry_run=dry_run, field_owner=field_owner, field_validation=field_validation)
        with _named_after(body, obj):
            made: AnyObject = await self.executor.execute(
                PatchObject(obj=obj, patch=patch, subresource=self.name, body=body, options=options)
            )
        return made

    @overload
    async def apply(
        self, obj: T, body: None = None, *, field_owner: str = "", force: bool = False, dry_run: bool = False
    ) -> T: ...
    @overload
    async def apply(
        self, obj: AnyObject, body: T, *, field_owner: str = "", force: bool = False, dry_run: bool = False
    ) -> T: ...
    async def apply(
        self,
        obj: AnyObject,
        body: AnyObject | None = None,
        *,
        field_owner: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> AnyObject:
        """Server-side apply of `body`, or of what `obj` says, to the subresource."""
        options = WriteOptions(dry_run=dry_run, field_owner=field_owner, force=force)
        with _named_after(body, obj):
            made: AnyObject = await self.executor.execute(
                Apply(obj=obj, subresource=self.name, body=body, options=options)
            )
        return made


def as_key(key: ObjectKey | str, namespace: str = "") -> ObjectKey:
    """An `ObjectKey` from what a caller finds handy."""
    parsed = key if isinstance(key, ObjectKey) else ObjectKey.parse(key)
    if parsed.namespace and namespace and parsed.namespace != namespace:
        raise UsageError(f"the key {str(key)!r} and the namespace {namespace!r} disagree: give one of them")
    return ObjectKey(parsed.namespace or namespace, parsed.name)


def _target(
    target: AnyObject | KindLike[AnyObject], key: ObjectKey | str | None, namespace: str
) -> tuple[GroupVersionKind, ObjectKey]:
    if isinstance(target, type | Kind):
        if key is None:
            raise UsageError("delete needs an object, or a kind and a key")
        return kind_of(target).gvk, as_key(key, namespace)
    return gvk_of(target), key_of(target)


def _not_metadata(obj: AnyObject, verb: str) -> None:
    if isinstance(obj, PartialObjectMetadata):
        hint = " -- did you mean to patch?" if verb == "update" else ""
        raise UsageError(f"cannot {verb} using only metadata{hint}")


@contextmanager
def _named_after(body: AnyObject | None, parent: AnyObject) -> Iterator[None]:
    """`body` takes its parent's name and namespace where it has none; if the block fails, it is as it was."""
    if body is None:
        yield
        return
    meta = body.metadata
    before = meta.name, meta.namespace
    meta.name, meta.namespace = meta.name or parent.metadata.name, meta.namespace or parent.metadata.namespace
    try:
        yield
    except BaseException:
        meta.name, meta.namespace = before
        raise
