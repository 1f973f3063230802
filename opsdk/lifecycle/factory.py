"""Shares one GenericController for each kind of a cluster between all handlers of the kind.

Upstream: github.com/rancher/lasso/pkg/controller/sharedcontrollerfactory.go
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Self, TypeVar

from opsdk.apimachinery.gvk import GroupResource, GroupVersionKind, GroupVersionResource
from opsdk.apimachinery.kinds import KindLike, kind_of, kind_of_object, unstructured_kind
from opsdk.apimachinery.object import AnyObject, Unstructured
from opsdk.cluster.cluster import Cluster
from opsdk.controller.journal import Journal
from opsdk.errors import CacheError, UsageError
from opsdk.event.predicates import PredicateFunc
from opsdk.lifecycle.generic_controller import GenericController
from opsdk.lifecycle.options import GenericControllerOptions
from opsdk.manager.manager import Manager
from opsdk.rbac.rules import RbacRule, patches_status, reads

T = TypeVar("T", bound=AnyObject)


class HasManager(Protocol):
    """The part of an `opsdk.builder.operator.Operator` that a factory uses."""

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        ...

    @property
    def manager(self) -> Manager:
        """The manager."""
        ...

    @property
    def journal(self) -> Journal:
        """The journal of reconciles."""
        ...

    def rbac(self, *rules: RbacRule) -> None:
        """Declare permissions."""
        ...


class SharedControllerFactory:
    """Creates the controllers of a cluster, one for each kind, and adds them to a manager.

    A controller starts its informer with its first handler, even after the manager has started.

    Args:
        cluster: reads and writes.
        manager: runs the controllers.
        options: of the controllers.
        options_by_kind: options of single kinds, which replace `options`.
        prefix: of the controllers' names, such as the name of the cluster with ``-``.
        journal: keeps what each run did.
        declare: receives the permissions for the informer of each kind. Declare the writes of handlers separately.
    """

    def __init__(
        self,
        cluster: Cluster,
        manager: Manager,
        *,
        options: GenericControllerOptions | None = None,
        options_by_kind: Mapping[KindLike[Any], GenericControllerOptions] | None = None,
        prefix: str = "",
        journal: Journal | None = None,
        declare: Callable[[RbacRule], None] | None = None,
    ) -> None:
        self.cluster = cluster
        self.manager = manager
        self._options = options
        self._options_by_kind = {kind_of(kind).gvk: own for kind, own in (options_by_kind or {}).items()}
        self._prefix = prefix
        self._journal = journal
        self._declare = declare
        self.controllers: dict[GroupVersionKind, GenericController[Any]] = {}

    @classmethod
    def of(cls, operator: HasManager, *, options: GenericControllerOptions | None = None) -> Self:
        """Return a factory for the cluster and the manager of an operator. Call it in a ``setup`` function."""
        return cls(operator.cluster, operator.manager, options=options, journal=operator.journal, declare=operator.rbac)

    def for_kind(self, kind: KindLike[T], *, predicates: Sequence[PredicateFunc] = ()) -> GenericController[T]:
        """Return the controller of a kind; the first call creates it.

        Args:
            kind: the kind. All callers use the same representation: typed or unstructured.
            predicates: events that reach the queue. Only the first call may pass them.

        Raises:
            UsageError: the controller has another representation, or exists and `predicates` are passed.
        """
        token = kind_of(kind)
        existing = self.controllers.get(token.gvk)
        if existing is None:
            return self._new_controller(kind, predicates)
        if existing.kind.representation is not token.representation:
            raise UsageError(
                f"{existing.name} handles {token.gvk} as {existing.kind.representation.__name__}, not as "
                f"{token.representation.__name__}: use one class for each kind, or another factory"
            )
        if predicates:
            raise UsageError(
                f"{existing.name} already exists: pass predicates to the first for_kind call, or use `when`"
            )
        return existing

    def for_object(self, obj: T) -> GenericController[T]:
        """Return the controller of an object's kind."""
        return self.for_kind(kind_of_object(obj))

    async def for_resource(
        self, resource: GroupResource | GroupVersionResource | str
    ) -> GenericController[Unstructured]:
        """Return the controller of a resource such as ``deployments.apps``, with unstructured objects.

        Raises `NoMatchError` if the server does not serve it.
        """
        gvk = (await self.cluster.mapper.kind_for(resource)).gvk
        return self.for_kind(unstructured_kind(gvk.api_version, gvk.kind))

    def _new_controller(self, kind: KindLike[T], predicates: Sequence[PredicateFunc]) -> GenericController[T]:
        """Return a new controller of a kind, which the manager runs and whose problems make it not ready."""
        token = kind_of(kind)
        controller = GenericController(
            self.cluster,
            kind,
            name=f"{self._prefix}{token.name.lower()}-handlers",
            options=self._options_by_kind.get(token.gvk, self._options),
            predicates=predicates,
            hook=self.manager.hook,
            journal=self._journal,
        )

        async def check() -> None:
            if problems := controller.controller.problems():
                raise CacheError("; ".join(problems))

        if self._declare is not None:
            self._declare(reads(token))
            if controller.options.pausing is not None and controller.options.pausing.condition:
                self._declare(patches_status(token))
        self.manager.claim_name(controller.name)
        self.manager.readyz.add(f"controller-{controller.name}", check)
        self.manager.add(controller)
        self.controllers[token.gvk] = controller
        return controller

    def __repr__(self) -> str:
        return f"<SharedControllerFactory of {', '.join(str(gvk.group_kind) for gvk in self.controllers) or 'nothing'}>"
