"""Finds what a controller declares and its cache can never show. Pure.

What depends on single objects, such as a child without the label of the cache, is found at its first write: see
`opsdk.cache.unseen_writes`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any, Final

from opsdk.aio.containment import contain
from opsdk.apimachinery.kinds import Kind
from opsdk.apimachinery.object import AnyObject
from opsdk.cache.entry import Transform
from opsdk.cache.options import ALL_NAMESPACES, ByObject, CacheOptions
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject

_OWNERS: Final = "ownerReferences"
_OF_FINALIZERS: Final = ("finalizers", "deletionTimestamp")


def check_unseen(
    kind: Kind[AnyObject] | None, owned: Iterable[Kind[AnyObject]], cache: CacheOptions, *, has_finalizers: bool
) -> None:
    """Raise `UsageError` if the cache drops what events of the declared kinds, or finalizers, need.

    Args:
        kind: the reconciled kind.
        owned: the kinds in ``owns``.
        cache: the options of the cache.
        has_finalizers: finalizers are added to the reconciled kind.
    """
    if problem := next(_problems(kind, owned, cache, has_finalizers=has_finalizers), None):
        raise UsageError(problem)


def _problems(
    kind: Kind[AnyObject] | None, owned: Iterable[Kind[AnyObject]], cache: CacheOptions, *, has_finalizers: bool
) -> Iterator[str]:
    if kind is None or not (cache.by_kind or cache.transform or cache.label_selector.nothing):
        return
    by_gvk = cache.by_gvk()
    namespaces = _names(by_gvk.get(kind.gvk, ByObject()))
    needed = _OF_FINALIZERS if has_finalizers else ()
    yield from _drops(kind, by_gvk.get(kind.gvk, ByObject()), cache, needed, "its finalizers never run")
    for child in owned:
        own = by_gvk.get(child.gvk, ByObject())
        yield from _drops(child, own, cache, (_OWNERS,), f"its events never reach {kind.name}")
        others = _names(own)
        if namespaces and others and not namespaces & others:
            yield (
                f"owns has {child.name}, of which the cache has the namespaces {', '.join(sorted(others))}, and "
                f"{kind.name} is cached in {', '.join(sorted(namespaces))}: children are in the namespace of their "
                "owner, so none is ever seen. Give both kinds the same ByObject(namespaces=...)"
            )


def _names(own: ByObject) -> frozenset[str]:
    """Return the namespaces that the options of a kind name; empty if they name none, or all."""
    names = frozenset(own.namespaces or ())
    return frozenset() if ALL_NAMESPACES in names else names


def _drops(
    kind: Kind[AnyObject], own: ByObject, cache: CacheOptions, needed: Iterable[str], consequence: str
) -> Iterator[str]:
    """Report a selector that selects nothing, and a transform that drops fields of the metadata."""
    selector = cache.label_selector if own.label_selector is None else own.label_selector
    if selector.nothing:
        yield f"the label_selector of the cache selects no {kind.name}: {consequence}. Remove it, or narrow it less"
    transform = cache.transform if own.transform is None else own.transform
    dropped = _dropped_by(transform, kind) if transform is not None else frozenset()
    if lost := [field for field in needed if field in dropped]:
        name = getattr(transform, "__name__", "transform")
        yield f"{name} drops metadata.{lost[0]} of {kind.name} from the cache: {consequence}. Keep the field"


def _dropped_by(transform: Transform, kind: Kind[AnyObject]) -> frozenset[str]:
    """Return the fields of metadata that a transform drops from a small object. None for one that cannot be told."""
    probe: JsonObject = {
        "apiVersion": kind.gvk.api_version,
        "kind": kind.name,
        "metadata": {
            "name": "probe",
            "namespace": "default",
            "uid": "0",
            "resourceVersion": "1",
            "generation": 1,
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["example.com/probe"],
            _OWNERS: [{"apiVersion": "v1", "kind": "Probe", "name": "probe", "uid": "1", "controller": True}],
        },
        "spec": {},
        "status": {},
    }
    before = frozenset(probe["metadata"])
    try:
        changed: Any = transform(copy.deepcopy(probe))
        return before - frozenset(changed["metadata"])
    except BaseException as error:  # noqa: BLE001 - a user function may raise anything for a probe that is no real object
        contain(error)
        return frozenset()
