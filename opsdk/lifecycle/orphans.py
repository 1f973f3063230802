"""Removes orphaned finalizers, which keep objects and namespaces Terminating because no controller handles them.

Upstream: none. See github.com/rancher/rancher issues 14715, 29752 and 36450, and kubernetes issue 125143.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind, ObjectKey
from opsdk.apimachinery.kinds import AnyKind, Kind, KindLike, kind_of, metadata_only
from opsdk.apimachinery.object import AnyObject, PartialObjectMetadata, key_of
from opsdk.client.patch import MergeFrom
from opsdk.cluster.cluster import Cluster
from opsdk.errors import ConflictError, MethodNotAllowedError, NoMatchError, NotFoundError, OpsdkError, UsageError
from opsdk.rest.discovery import ApiResource, Discovery

_MAX_ATTEMPTS = 5
"""Conflicts with other writers until an object is reported as a problem."""


class DrainedFinalizer(msgspec.Struct, frozen=True, kw_only=True):
    """The finalizers that were removed from one object.

    Attributes:
        gvk: kind of the object.
        key: namespace and name.
        finalizers: those that were removed, or would be without a dry run.
        deleting: the object has a deletion timestamp; without other finalizers, it is gone now.
    """

    gvk: GroupVersionKind
    key: ObjectKey
    finalizers: tuple[str, ...]
    deleting: bool

    def __str__(self) -> str:
        state = ", which is being deleted" if self.deleting else ""
        return f"{self.gvk.kind} {self.key}{state}: {', '.join(self.finalizers)}"


class DrainResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `drain_all`.

    Attributes:
        drained: the objects.
        problems: read and write errors, by kind.
    """

    drained: tuple[DrainedFinalizer, ...] = ()
    problems: tuple[tuple[GroupVersionKind, OpsdkError], ...] = ()


def matching_finalizers(finalizers: Iterable[str], names: Sequence[str]) -> tuple[str, ...]:
    """Return the finalizers that are in `names`, or begin with a name that ends with a slash.

    >>> matching_finalizers(["a.example.com/x", "b.example.com/y"], ["a.example.com/", "b.example.com/z"])
    ('a.example.com/x',)
    """
    prefixes = tuple(name for name in names if name.endswith("/"))
    return tuple(dict.fromkeys(f for f in finalizers if f in names or (prefixes and f.startswith(prefixes))))


async def drain(
    cluster: Cluster, kind: KindLike[AnyObject], names: Sequence[str], *, namespace: str = "", dry_run: bool = False
) -> list[DrainedFinalizer]:
    """Remove finalizers from all objects of a kind, after the program that handled them is removed.

    The program must be stopped, or it adds its finalizers again. ``remove`` of a lifecycle is not called.

    Args:
        cluster: reads and writes, without its cache.
        kind: of the objects; only their metadata are read.
        names: finalizers, or prefixes that end with a slash, such as ``controller.cattle.io/``.
        namespace: of the objects; empty for all.
        dry_run: write nothing.

    Raises:
        UsageError: a name is empty, or has no slash.
        ConflictError: five attempts conflicted with other writers.
        ApiError: the server rejected a request. Earlier objects are drained.
    """
    check_names(names)
    token = metadata_only(kind_of(kind))
    drained = []
    async for obj in cluster.uncached.list_pages(token, namespace=namespace):
        removed = await _drain_object(cluster, token, obj, names, dry_run=dry_run)
        if removed is not None:
            drained.append(removed)
    return drained


async def drain_all(
    cluster: Cluster,
    names: Sequence[str],
    *,
    kinds: Sequence[AnyKind] = (),
    namespace: str = "",
    dry_run: bool = False,
) -> DrainResult:
    """Remove finalizers from the objects of several kinds. A failed kind does not stop the others.

    Args:
        cluster: reads and writes, without its cache.
        names: see `drain`.
        kinds: the kinds; none means every kind that the server lists and updates.
        namespace: of the objects; empty for all, and for cluster-scoped ones.
        dry_run: write nothing.

    Raises:
        UsageError: see `drain`.
        OpsdkError: the server cannot be reached.
    """
    check_names(names)
    chosen: list[Kind[AnyObject]] = [kind_of(kind) for kind in kinds]
    if not kinds:
        chosen = [metadata_only(gvk) async for gvk in _listed_kinds(cluster, namespaced_only=bool(namespace))]
    drained: list[DrainedFinalizer] = []
    problems: list[tuple[GroupVersionKind, OpsdkError]] = []
    for kind in chosen:
        try:
            drained += await drain(cluster, kind, names, namespace=namespace, dry_run=dry_run)
        except (MethodNotAllowedError, NotFoundError, NoMatchError) as error:
            if kinds:  # a kind may be removed after discovery
                problems.append((kind.gvk, error))
        except OpsdkError as error:
            problems.append((kind.gvk, error))
    return DrainResult(drained=tuple(drained), problems=tuple(problems))


def check_names(names: Sequence[str]) -> None:
    """Raise `UsageError` for a name that is not a finalizer or a prefix of finalizers."""
    if not names:
        raise UsageError("no finalizers to remove: pass names like controller.cattle.io/dns")
    for name in names:
        domain, slash, _ = name.partition("/")
        if not domain or not slash:
            raise UsageError(
                f"{name!r} is not a qualified finalizer: write one like controller.cattle.io/dns, or a prefix that "
                "ends with a slash"
            )


async def _listed_kinds(cluster: Cluster, *, namespaced_only: bool) -> AsyncIterator[GroupVersionKind]:
    """Yield each kind once, in the version that the server prefers."""
    yielded: set[tuple[str, str]] = set()
    resources: Sequence[ApiResource] = (await Discovery(cluster.transport).fetch()).resources
    for resource in resources:
        if (resource.group, resource.plural) in yielded or not {"list", "patch"} <= set(resource.verbs):
            continue
        yielded.add((resource.group, resource.plural))
        if resource.namespaced or not namespaced_only:
            yield GroupVersionKind(resource.group, resource.version, resource.kind)


async def _drain_object(
    cluster: Cluster,
    kind: Kind[PartialObjectMetadata],
    obj: PartialObjectMetadata,
    names: Sequence[str],
    *,
    dry_run: bool,
) -> DrainedFinalizer | None:
    """Remove the finalizers from one object, and return what was removed; None if there was nothing."""
    current: PartialObjectMetadata | None = obj
    key, uid = key_of(obj), obj.metadata.uid
    for _ in range(_MAX_ATTEMPTS):
        if current is None or current.metadata.uid != uid:
            return None
        meta = current.metadata
        removed = matching_finalizers(meta.finalizers, names)
        if not removed:
            return None
        drained = DrainedFinalizer(
            gvk=kind.gvk, key=key, finalizers=removed, deleting=meta.deletion_timestamp is not None
        )
        if dry_run:
            return drained
        meta.finalizers = [name for name in meta.finalizers if name not in removed]
        try:
            # Optimistic locking: the patch replaces the list, and must not remove finalizers of other programs.
            await cluster.uncached.patch(current, MergeFrom(optimistic_lock=True))
        except ConflictError:
            current = await cluster.uncached.get_or_none(kind, key)
        except NotFoundError:
            return None
        else:
            return drained
    raise ConflictError(f"{kind.name} {key} changed {_MAX_ATTEMPTS} times while its finalizers were removed: try again")
