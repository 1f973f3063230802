"""Options of a cache by kind and by namespace, and the scope of each informer. Pure.

Precedence, as in controller-runtime: the kind's options for a namespace, the kind's options, the cache's options for a
namespace, the cache's options.

Upstream: sigs.k8s.io/controller-runtime/pkg/cache/cache.go (defaultOpts)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import kind_of
from opsdk.apimachinery.rest_mapper import RestMapping
from opsdk.apimachinery.selectors import FieldRequirement, FieldSelector, LabelRequirements
from opsdk.base.options import Options
from opsdk.cache.entry import Transform
from opsdk.cache.shard import HashRange
from opsdk.errors import UsageError
from opsdk.rest.pages import LIST_BYTES
from opsdk.structured_merge.value import JsonObject

__all__ = ["strip_managed_fields"]

ALL_NAMESPACES = ""
"""As a namespace of the options: every namespace that is not named."""

MIN_LAG_INTERVAL = 1.0
"""Seconds: one measurement may take as long."""


class OverrideOptions(Options, frozen=True, kw_only=True):
    """What a kind or a namespace may set for itself. None inherits.

    Attributes:
        label_selector: cache only matching objects.
        field_selector: cache only matching objects; the server must support the fields.
        transform: see `ByObject`.
        resync: seconds between resyncs of handlers.
    """

    label_selector: LabelRequirements | None = None
    field_selector: FieldSelector | None = None
    transform: Transform | None = None
    resync: float | None = None


class NamespaceOptions(OverrideOptions, frozen=True, kw_only=True):
    """Cache options for one namespace; see `OverrideOptions`."""


Namespaces = Collection[str] | Mapping[str, NamespaceOptions]
"""The namespaces to cache, optionally with options for each. `ALL_NAMESPACES` stands for those that are not named."""


class ByObject(OverrideOptions, frozen=True, kw_only=True):
    """Cache options for one kind. None inherits the value of `CacheOptions`.

    Attributes:
        namespaces: cache only these namespaces; empty for all.
        label_selector: cache only matching objects.
        field_selector: cache only matching objects; the server must support the fields.
        transform: changes an object's JSON tree before it is stored, for example to drop unused fields. It must be
            idempotent, and keep name, namespace, uid and resourceVersion. If it raises, the object is stored unchanged.
        resync: seconds between resyncs of handlers.
    """

    namespaces: Namespaces | None = None


ByKind = Mapping[Any, ByObject]
"""Options by class or GroupVersionKind. Type checkers infer a metaclass for the keys of two classes, hence Any."""


class ListWatchOptions(Options, frozen=True, kw_only=True):
    """The objects that informers store, and how they list and watch them. Times are in seconds.

    Attributes:
        label_selector: store only matching objects.
        field_selector: store only matching objects.
        transform: changes each object before it is stored.
        shard: store only the objects of a range of hashes; None for all.
        page_size: objects per page of a list.
        list_bytes: memory of one list over all its pages: JSON, and 512 bytes for each object. More is an error.
        stale_after: time without a watch after which the objects count as stale.
        lag_interval: time between two measurements of the lag, with 10 % jitter; None measures nothing. Each one is a
            list of one object, and a watch for a second if the watch has not shown the list's resource version.
    """

    label_selector: LabelRequirements = LabelRequirements()
    field_selector: FieldSelector = FieldSelector()
    transform: Transform | None = None
    shard: HashRange | None = None
    page_size: int = 500
    list_bytes: int = LIST_BYTES
    stale_after: float = 60.0
    lag_interval: float | None = None

    def __post_init__(self) -> None:
        if self.lag_interval is not None and not self.lag_interval >= MIN_LAG_INTERVAL:
            raise UsageError(f"lag_interval is {self.lag_interval!r}: pass at least {MIN_LAG_INTERVAL:g} s, or None")


class CacheOptions(ListWatchOptions, frozen=True, kw_only=True):
    """Options of a `Cache`. Times are in seconds.

    Attributes:
        namespaces: cache only these namespaces; empty for all. Cluster-scoped kinds are always cached.
        namespace_selector: cache only the namespaces whose labels match, as they come and go; instead of `namespaces`.
            Kinds with `ByObject.namespaces` keep theirs.
        label_selector: for kinds without their own.
        field_selector: for kinds without their own.
        transform: for kinds without their own.
        by_kind: options of single kinds, by class or GroupVersionKind.
        resync: time between resyncs, with 10 % jitter. The default is controller-runtime's ten hours; a resync guards
            against handler bugs, not against missed events.
        reader_fail_on_missing_informer: raise `NotCachedError` on reads of kinds without an informer, instead of
            starting a cluster-wide informer.
        page_size: objects per page of a list.
        list_bytes: memory of one list over all its pages: JSON, and 512 bytes for each object. More is an error.
        watch_list: use streaming lists where the server has them, not pages. The server then holds one object at a
            time, and spends about 1.5 times the CPU on it.
        shard: cache only the objects of a range of hashes; None for all.
        sync_timeout: time that a read waits for the first list of its kind.
        stale_after: time without a watch after which an informer is no longer ready.
        lag_interval: see `ListWatchOptions`. The default measures nothing: each informer would send up to two requests
            in each interval. For a few informers, 30 s cost the server little.
    """

    namespaces: Namespaces = ()
    namespace_selector: LabelRequirements | None = None
    by_kind: ByKind = msgspec.field(default_factory=dict)
    resync: float = 36_000.0
    reader_fail_on_missing_informer: bool = False
    watch_list: bool = True
    sync_timeout: float = 60.0

    def __post_init__(self) -> None:
        super().__post_init__()
        selector: object = self.namespace_selector
        if selector is None:
            return
        if self.namespaces:
            raise UsageError("namespaces and namespace_selector are mutually exclusive: pass one of them")
        if not isinstance(selector, LabelRequirements) or not selector.requirements:
            raise UsageError(
                f"namespace_selector is {selector!r}: write LabelRequirements.parse('env=prod'), "
                "or leave it out for all namespaces"
            )

    def by_gvk(self) -> dict[GroupVersionKind, ByObject]:
        """Return `by_kind` by GroupVersionKind. Raises `UsageError` for a class without one.

        >>> from opsdk.api.core.v1 import Pod
        >>> list(CacheOptions(by_kind={Pod: ByObject(namespaces=["shop"])}).by_gvk())
        [GroupVersionKind(group='', version='v1', kind='Pod')]
        """
        items = self.by_kind.items()
        return {kind if isinstance(kind, GroupVersionKind) else kind_of(kind).gvk: options for kind, options in items}


class CacheScope(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that one informer lists, watches and stores."""

    gvk: GroupVersionKind
    namespace: str
    label_selector: LabelRequirements
    field_selector: FieldSelector
    metadata_only: bool
    transform: Transform | None
    resync: float
    shard: HashRange | None = None

    @property
    def drops_managed_fields(self) -> bool:
        """Whether the server may leave out ``metadata.managedFields``."""
        return self.transform is strip_managed_fields


def strip_managed_fields(tree: JsonObject) -> JsonObject:
    """Transform: remove ``metadata.managedFields``, often a third of an object (``TransformStripManagedFields``).

    An informer with this transform also asks the server to leave them out, which Kubernetes does from 1.37 on
    (KEP-5958, an alpha feature). `ctx.apply` compares only values of such a kind.

    >>> strip_managed_fields({"metadata": {"name": "a", "managedFields": [{"manager": "x"}]}})
    {'metadata': {'name': 'a'}}
    """
    meta = tree.get("metadata")
    if not isinstance(meta, dict) or "managedFields" not in meta:
        return tree
    return {**tree, "metadata": {k: v for k, v in meta.items() if k != "managedFields"}}


V = TypeVar("V")


def no_namespaces(gvk: GroupVersionKind) -> UsageError:
    """Return the error for namespaces in the options of a cluster-scoped kind."""
    return UsageError(f"{gvk} is cluster-scoped: its cache options cannot name namespaces")


def follows_namespaces(options: CacheOptions, mapping: RestMapping) -> bool:
    """Whether the informers of a kind are those of the selected namespaces."""
    own = options.by_gvk().get(mapping.gvk, ByObject())
    return options.namespace_selector is not None and own.namespaces is None and mapping.namespaced


def scopes(
    options: CacheOptions, mapping: RestMapping, *, metadata_only: bool = False, selected: Collection[str] = ()
) -> dict[str, CacheScope]:
    """Return the scopes of a kind's informers by namespace. Raises `UsageError` for contradictory options.

    Args:
        options: of the cache.
        mapping: of the kind.
        metadata_only: whether the informers store metadata.
        selected: the namespaces that `CacheOptions.namespace_selector` selects now.
    """
    own = options.by_gvk().get(mapping.gvk, ByObject())
    if own.namespaces and not mapping.namespaced:
        raise no_namespaces(mapping.gvk)
    namespaces = _namespace_options(options.namespaces if own.namespaces is None else own.namespaces)
    if follows_namespaces(options, mapping):
        namespaces = _namespace_options(selected)
    elif not namespaces or not mapping.namespaced:
        namespaces = {ALL_NAMESPACES: NamespaceOptions()}
    cache_wide = _namespace_options(options.namespaces)
    planned = {}
    for namespace, first in namespaces.items():
        # For a kind with namespaces of its own, the cache's options for the namespace come after the kind's.
        levels = (first, own, cache_wide.get(namespace, NamespaceOptions())) if own.namespaces else (own, first)
        fields = _first_set(options.field_selector, *(level.field_selector for level in levels))
        if namespace == ALL_NAMESPACES and len(namespaces) > 1:
            others = [FieldRequirement("metadata.namespace", name, negated=True) for name in namespaces if name]
            fields = replace(fields, requirements=(*fields.requirements, *others))
        # A field selector for one namespace becomes a namespaced list, which needs fewer permissions.
        pinned = fields.exact("metadata.namespace") if mapping.namespaced and not namespace else None
        planned[namespace] = CacheScope(
            gvk=mapping.gvk,
            namespace=namespace or pinned or "",
            label_selector=_first_set(options.label_selector, *(level.label_selector for level in levels)),
            field_selector=fields.without("metadata.namespace") if pinned else fields,
            metadata_only=metadata_only,
            transform=_first_set(options.transform, *(level.transform for level in levels)),
            resync=_first_set(options.resync, *(level.resync for level in levels)),
            shard=options.shard,
        )
    return planned


def _namespace_options(namespaces: Namespaces) -> Mapping[str, NamespaceOptions]:
    return namespaces if isinstance(namespaces, Mapping) else dict.fromkeys(namespaces, NamespaceOptions())


def _first_set(default: V, *values: V | None) -> V:
    return next((value for value in values if value is not None), default)
