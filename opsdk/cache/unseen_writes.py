"""Tells once for each kind that an own write is outside of what the cache holds: no read and no event shows it.

Upstream: none; controller-runtime's cached reads return not found, and an operator creates the object again and again.
"""

from __future__ import annotations

from collections.abc import Iterable

from opsdk.apimachinery.gvk import GroupKind, ObjectKey
from opsdk.cache.cached_kind import CachedKind
from opsdk.cache.head import HeadMeta
from opsdk.cache.informer import InformerOptions
from opsdk.cache.options import CacheOptions
from opsdk.telemetry.safe_logger import SafeLogger

log = SafeLogger(__name__)


class UnseenWrites:
    """Finds writes that no informer of their kind will show.

    Args:
        options: of the cache.

    Attributes:
        possible: whether the options leave anything out; without, nothing is compared.
    """

    def __init__(self, options: CacheOptions) -> None:
        self.possible = bool(
            options.namespaces
            or options.namespace_selector is not None
            or options.label_selector.requirements
            or options.field_selector.requirements
            or options.by_kind
        )
        self._reported: set[GroupKind] = set()

    def check(self, kinds: Iterable[CachedKind], group_kind: GroupKind, key: ObjectKey, meta: HeadMeta) -> None:
        """Log a warning if the cache holds objects of a kind, but not this one.

        Args:
            kinds: all that is cached.
            group_kind: of the written object.
            key: of the written object.
            meta: of the written object.
        """
        if group_kind in self._reported or meta.deletion_timestamp is not None:
            return
        cached = [kind for kind in kinds if kind.gvk.group_kind == group_kind]
        reasons = [reason for kind in cached if (reason := _unseen_by(kind, key, meta))]
        if not cached or len(reasons) < len(cached):
            return
        self._reported.add(group_kind)
        log.warning(
            "%s %s was written, but the cache of its kind has only %s: cached reads do not find it, and no event of it "
            "starts a reconcile. Change the object, or the options of the cache (CacheOptions, ByObject); "
            "read it with uncached=True",
            group_kind.kind,
            key,
            reasons[0],
        )


def _unseen_by(kind: CachedKind, key: ObjectKey, meta: HeadMeta) -> str:
    """Return what the informers of a kind are limited to if none of them holds an object, else an empty string."""
    if kind.follows_namespaces and key.namespace not in kind.informers:
        return "the namespaces of namespace_selector"
    informers = kind.informers_of(key.namespace)
    if not informers:
        return f"the namespaces {', '.join(sorted(kind.informers))}"
    limits = [_limit_of(informer.options, key, meta) for informer in informers]
    return limits[0] if all(limits) else ""


def _limit_of(options: InformerOptions, key: ObjectKey, meta: HeadMeta) -> str:
    """Return the selector of an informer that does not select an object; empty if both may select it."""
    if not options.label_selector.matches(meta.labels or {}):
        return f"objects with the labels {options.label_selector}"
    fields = {"metadata.name": key.name, "metadata.namespace": key.namespace}
    for requirement in options.field_selector.requirements:
        value = fields.get(requirement.field)
        if value is not None and (value == requirement.value) is requirement.negated:
            return f"objects with the fields {options.field_selector}"
    return ""
