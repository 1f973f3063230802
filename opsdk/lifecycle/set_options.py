"""Options and results of `ObjectSet`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

import msgspec

from opsdk.apimachinery.gvk import GroupKind
from opsdk.apimachinery.kinds import AnyKind
from opsdk.apimachinery.object import TypedObject, Unstructured
from opsdk.base.options import Options
from opsdk.children.explanation import ApplyReason, Explanation
from opsdk.client.client import Client

Child = TypedObject | Unstructured
Injector = Callable[[Sequence[Any]], Iterable[Any]]
"""Changes the desired objects before they are applied: returns those that are applied."""
Reconciler = Callable[[Client, Any, Any], Awaitable[bool]]
"""Gets the client, the live and the desired object. Returns True if it did the update itself."""
Patcher = Callable[[Client, Any, Any], Awaitable[None]]
"""Gets the client, the live and the desired object, and sends the update."""

REPLACED_IF_IMMUTABLE: Final = frozenset(
    {
        GroupKind("", "Secret"),
        GroupKind("", "Service"),
        GroupKind("batch", "Job"),
        GroupKind("apps", "Deployment"),
        GroupKind("apps", "DaemonSet"),
    }
)
"""The kinds that wrangler deletes and creates again when an immutable field changes."""


class SetMode(Enum):
    """The write operation for objects."""

    SERVER_SIDE_APPLY = "server-side apply"
    """By server-side apply. Objects that wrangler wrote are converted once."""
    THREE_WAY_MERGE = "three-way merge"
    """By a merge patch with the annotation ``objectset.rio.cattle.io/applied``, so that wrangler may continue."""


class ObjectSetOptions(Options, frozen=True, kw_only=True):
    """Options of an `ObjectSet`.

    Attributes:
        mode: see `SetMode`.
        set_owner_reference: make the owner the controller of the objects. Objects in other namespaces and
            cluster-scoped objects of a namespaced owner get no reference.
        default_namespace: of objects without a namespace; default: the owner's namespace.
        namespace: the only namespace that is searched for objects of the set; default: all.
        dynamic_lookup: objects may have kinds that are not declared. The kinds are recorded on the owner, as an
            ApplySet, and pruned after a restart too. Without it, another kind is an error (strict caching).
        apply_set: write the labels of an ApplySet to the owner and to the objects, for tools such as kubectl.
        restrict_cluster_scoped: cluster-scoped objects are an error.
        no_delete: kinds whose objects are never deleted by pruning.
        replace_immutable: kinds whose objects are deleted and created again when an immutable field changes.
        reconcilers: by kind, called before an update.
        patchers: by kind, called instead of an update.
        injectors: called in order before each run.
        qps: writes a second on average, or None for no limit.
        burst: writes at once with `qps`.
    """

    mode: SetMode = SetMode.SERVER_SIDE_APPLY
    set_owner_reference: bool = False
    default_namespace: str = ""
    namespace: str = ""
    dynamic_lookup: bool = False
    apply_set: bool = False
    restrict_cluster_scoped: bool = False
    no_delete: Sequence[AnyKind] = ()
    replace_immutable: frozenset[GroupKind] = REPLACED_IF_IMMUTABLE
    reconcilers: Mapping[Any, Reconciler] = msgspec.field(default_factory=dict)
    patchers: Mapping[Any, Patcher] = msgspec.field(default_factory=dict)
    injectors: Sequence[Injector] = ()
    qps: float | None = None
    burst: int = 10


class SetPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The planned or sent writes of a run. Objects without a write are omitted.

    Attributes:
        create: objects to create.
        update: objects to update, with the reasons.
        delete: objects to delete.
    """

    create: tuple[Explanation, ...] = ()
    update: tuple[Explanation, ...] = ()
    delete: tuple[Explanation, ...] = ()

    @classmethod
    def of(cls, writes: Iterable[Explanation]) -> SetPlan:
        """Return the plan of some writes."""
        writes = list(writes)
        create = [write for write in writes if write.reason is ApplyReason.CREATE]
        delete = [write for write in writes if write.reason is ApplyReason.PRUNED]
        update = [write for write in writes if write not in create and write not in delete]
        return cls(create=tuple(create), update=tuple(update), delete=tuple(delete))

    def __bool__(self) -> bool:
        return bool(self.create or self.update or self.delete)

    def __str__(self) -> str:
        writes = (*self.create, *self.update, *self.delete)
        return "\n".join(map(str, writes)) or "nothing to write"
