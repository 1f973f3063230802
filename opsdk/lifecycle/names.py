"""The finalizer and the annotation of a lifecycle, and the former names that it adopts.

Upstream: github.com/rancher/norman/lifecycle/object.go, github.com/rancher/wrangler/pkg/generic/remove.go
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from opsdk.base.options import Options
from opsdk.errors import UsageError

NORMAN_PREFIX = "controller.cattle.io/"
CLUSTER_SCOPED_PREFIX = "clusterscoped.controller.cattle.io/"
WRANGLER_PREFIX = "wrangler.cattle.io/"
CREATE_PREFIX = "lifecycle.cattle.io/create."

_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class LifecycleNames(Options, frozen=True, kw_only=True):
    """The names that a lifecycle writes into the metadata of an object.

    >>> LifecycleNames.norman("dns").finalizer
    'controller.cattle.io/dns'
    >>> LifecycleNames.norman("dns", prefix="finalizers.example.com/", adopt=["controller.cattle.io/dns"]).former
    ('controller.cattle.io/dns',)

    Attributes:
        finalizer: keeps the object until ``remove`` has succeeded.
        annotation: records that ``create`` has succeeded.
        former: finalizers that earlier programs wrote for the same purpose. They count as `finalizer`.
        former_annotations: annotations of earlier programs. They count as `annotation`.
        rename: replace the former names at the next event. False leaves them, for a program that still writes them.
        record_uid: write the object's uid and generation into the annotation instead of ``true``. Then ``create`` runs
            for a copy of the object too, such as one from a backup. Rancher ignores such a record.
    """

    finalizer: str
    annotation: str
    former: Sequence[str] = ()
    former_annotations: Sequence[str] = ()
    rename: bool = True
    record_uid: bool = False

    def __post_init__(self) -> None:
        # The server also limits annotation keys, but would report an error only with the first object.
        for key in (self.finalizer, self.annotation):
            prefix, slash, name = key.rpartition("/")
            if not slash or not prefix or "/" in prefix or _NAME.fullmatch(name) is None:
                raise UsageError(
                    f"{key!r} is not a qualified name: it needs a domain, a slash and at most 63 letters, digits, "
                    "'-', '_' and '.'; opsdk.recipes.safe_concat_name shortens names"
                )

    @classmethod
    def norman(
        cls,
        name: str,
        *,
        prefix: str = NORMAN_PREFIX,
        adopt: Sequence[str] = (),
        rename: bool = True,
        record_uid: bool = False,
    ) -> LifecycleNames:
        """Return norman's names, so that objects which Rancher wrote are not created again.

        Args:
            name: of the lifecycle.
            prefix: of the finalizer, with the slash.
            adopt: former finalizers, or former names of the lifecycle without a slash: those get norman's prefixes.
            rename: see `LifecycleNames`.
            record_uid: see `LifecycleNames`.
        """
        former = tuple(old if "/" in old else f"{NORMAN_PREFIX}{old}" for old in adopt)
        annotations = tuple(f"{CREATE_PREFIX}{old.rpartition('/')[2]}" for old in adopt)
        annotation = f"{CREATE_PREFIX}{name}"
        return cls(
            finalizer=f"{prefix}{name}",
            annotation=annotation,
            former=tuple(old for old in former if old != f"{prefix}{name}"),
            former_annotations=tuple(old for old in annotations if old != annotation),
            rename=rename,
            record_uid=record_uid,
        )

    @classmethod
    def cluster_scoped(cls, name: str, cluster: str) -> LifecycleNames:
        """Return norman's names of a lifecycle for the objects of one cluster.

        >>> LifecycleNames.cluster_scoped("dns", "c-1").finalizer
        'clusterscoped.controller.cattle.io/dns_c-1'
        """
        return cls(finalizer=f"{CLUSTER_SCOPED_PREFIX}{name}_{cluster}", annotation=f"{CREATE_PREFIX}{name}_{cluster}")

    @classmethod
    def wrangler(cls, name: str) -> LifecycleNames:
        """Return the names of wrangler's ``OnRemove``.

        >>> LifecycleNames.wrangler("dns").finalizer
        'wrangler.cattle.io/dns'
        """
        return cls(finalizer=f"{WRANGLER_PREFIX}{name}", annotation=f"{CREATE_PREFIX}{name}")

    @property
    def finalizers(self) -> tuple[str, ...]:
        """All finalizers that count as this lifecycle's."""
        return (self.finalizer, *self.former)

    @property
    def annotations(self) -> tuple[str, ...]:
        """All annotations that count as this lifecycle's."""
        return (self.annotation, *self.former_annotations)


def unknown_finalizers(finalizers: Iterable[str], lifecycles: Iterable[LifecycleNames]) -> list[str]:
    """Return the finalizers that have the prefix of a lifecycle, and belong to none.

    >>> unknown_finalizers(["controller.cattle.io/old", "foregroundDeletion"], [LifecycleNames.norman("dns")])
    ['controller.cattle.io/old']
    """
    handled = {name for names in lifecycles for name in names.finalizers}
    prefixes = tuple({f"{name.rpartition('/')[0]}/" for name in handled})
    return [name for name in finalizers if name not in handled and prefixes and name.startswith(prefixes)]
