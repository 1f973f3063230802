"""What the operators of this corpus share: statuses, children, and users."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from msgspec import field

from opsdk import (
    Condition,
    Context,
    GroupVersionKind,
    LabelSelector,
    Model,
    ObjectMeta,
    Operator,
    OperatorOptions,
)
from opsdk.api.apps.v1 import Deployment, DeploymentSpec
from opsdk.api.core import v1 as core
from opsdk.apimachinery.object import TypedObject
from opsdk.controller.options import ControllerOptions
from opsdk.errors import InvalidError
from opsdk.rbac.check import RbacCheck
from opsdk.testing.simulate import Action, World
from tests.corpus.case import CorpusCase, CorpusOperator, Reconciler, Study, corpus_operator

NAMESPACE: Final = "default"
NAME: Final = "demo"
IMAGE: Final = "registry.k8s.io/pause:3.9"
ABSENT_IMAGE: Final = "registry.invalid/absent:0"
"""The image of a pod that does not run with its settings: no container is started here."""


ObjectT = TypeVar("ObjectT", bound=TypedObject)


class Status(Model, kw_only=True):
    """What the operators report and remember."""

    ready_replicas: int = 0
    memory: dict[str, str] = field(default_factory=dict)
    conditions: list[Condition] = field(default_factory=list)


def gvk(kind: str) -> GroupVersionKind:
    """Return the group, version and kind of a custom resource."""
    return GroupVersionKind("acto.opsdk.dev", "v1", kind)


def new_operator(*, reports_errors: bool = True) -> Operator:
    """Return an operator without reconcilers.

    Args:
        reports_errors: a failed reconcile sets a condition.
    """
    controller = ControllerOptions(error_condition="Stalled" if reports_errors else "")
    return Operator("corpus", OperatorOptions(controller=controller, rbac_check=RbacCheck.OFF))


def reconciled(
    kind: type[Any], *, reports_errors: bool = True, **declared: Any
) -> Callable[[Reconciler], CorpusOperator]:
    """Make an operator of the reconciler of both twins. Arguments as of `corpus_operator` and `new_operator`."""
    new = partial(new_operator, reports_errors=reports_errors)
    return lambda of_twins: corpus_operator(of_twins, new, kind, **declared)


# ---------------------------------------------------------------- children
def meta(owner: Any, suffix: str = "", **more: Any) -> ObjectMeta:
    """Return the metadata of a child."""
    name = f"{owner.metadata.name}-{suffix}" if suffix else owner.metadata.name
    return ObjectMeta(name=name, namespace=owner.metadata.namespace, **more)


def workload(
    owner: Any, suffix: str = "", *, image: str = IMAGE, replicas: int = 1,
    annotations: Mapping[str, str] | None = None, **pod: Any,
) -> Deployment:  # fmt: skip
    """Return a Deployment with one container.

    Args:
        owner: the custom resource.
        suffix: of the name.
        image: of the container.
        replicas: number of pods.
        annotations: of the pods.
        pod: more of the pods' spec.
    """
    metadata = meta(owner, suffix)
    labels = {"app": metadata.name}
    containers = [core.Container(name="main", image=image), *pod.pop("sidecars", ())]
    template = core.PodTemplateSpec(
        metadata=ObjectMeta(labels=labels, annotations=dict(annotations or {})),
        spec=core.PodSpec(containers=containers, **pod),
    )
    spec = DeploymentSpec(replicas=replicas, selector=LabelSelector(match_labels=labels), template=template)
    return Deployment(metadata=metadata, spec=spec)


def service(owner: Any, suffix: str = "", *, ports: Mapping[str, int] | None = None, **metadata: Any) -> core.Service:
    """Return a Service.

    Args:
        owner: the custom resource.
        suffix: of the name.
        ports: numbers by name; one port without them.
        metadata: labels and annotations.
    """
    all_ports = [core.ServicePort(name=name, port=port) for name, port in (ports or {"main": 80}).items()]
    return core.Service(metadata=meta(owner, suffix, **metadata), spec=core.ServiceSpec(ports=all_ports))


def config(owner: Any, suffix: str = "", **data: object) -> core.ConfigMap:
    """Return a ConfigMap."""
    return core.ConfigMap(metadata=meta(owner, suffix), data={key: str(value) for key, value in data.items()})


# ---------------------------------------------------------------- steps of reconcilers
async def live(ctx: Context, child: ObjectT) -> ObjectT | None:
    """Return a child as it is in the cluster; None if it does not exist."""
    kind: Any = type(child)
    existing: ObjectT | None = await ctx.client.get_or_none(
        kind, child.metadata.name, namespace=child.metadata.namespace
    )
    return existing


def is_ready(deployment: Deployment) -> bool:
    """Whether all pods have the last template and are ready."""
    status, desired = deployment.status, deployment.spec.replicas
    return not status.unavailable_replicas and status.updated_replicas == status.replicas == desired


async def report(owner: Any, ctx: Context, deployment: Deployment) -> None:
    """Write whether the pods are ready."""
    ready = is_ready(deployment)
    async with ctx.status(owner) as patch:
        patch.status.ready_replicas = deployment.status.ready_replicas or 0
        patch.set_condition("Ready", ready, "Available" if ready else "RollingOut", "of the pods")


async def apply_and_report(owner: Any, ctx: Context, child: Deployment) -> None:
    """Apply a Deployment, and write whether its pods are ready."""
    await report(owner, ctx, await ctx.apply(child))


async def apply_when_ready(owner: Any, ctx: Context, child: Deployment, *, repaired: bool) -> None:
    """Apply a Deployment and report it.

    The mistake of several operators: no update is made before all pods are ready. Pods that cannot start with the
    present settings are never ready, so the settings that would start them are never applied.
    """
    existing = await live(ctx, child)
    if existing is None or repaired or is_ready(existing):
        existing = await ctx.apply(child)
    await report(owner, ctx, existing)


# ---------------------------------------------------------------- users
async def hold_anything(_: World) -> None:
    """Check nothing: other objects with the same content show what is right."""


def users(kind: type[Any], specs: Sequence[Model]) -> list[Action]:
    """Return users that write one spec after the other, and delete the object."""

    def writing(number: int, spec: Model) -> Action:
        async def write(world: World) -> None:
            existing = await world.client.get_or_none(kind, NAME, namespace=NAMESPACE)
            if existing is None:
                await world.client.create(kind(metadata=ObjectMeta(name=NAME, namespace=NAMESPACE), spec=spec))
            else:
                existing.spec = spec
                # A rule of the definition may refuse the step from a later spec to an earlier one.
                with suppress(InvalidError):
                    await world.client.update(existing)

        write.__name__ = f"write_{number}"
        return write

    async def delete(world: World) -> None:
        obj = kind(metadata=ObjectMeta(name=NAME, namespace=NAMESPACE), spec=specs[0])
        await world.client.delete(obj, missing_ok=True)

    return [*(writing(number, spec) for number, spec in enumerate(specs, 1)), delete]


_REPORTS: Final[Mapping[str, str]] = {
    "cass-operator": "https://github.com/k8ssandra/cass-operator/issues/",
    "cockroach-operator": "https://github.com/cockroachdb/cockroach-operator/issues/",
    "knative-operator": "https://github.com/knative/operator/issues/",
    "mongodb-community-operator": "https://github.com/mongodb/mongodb-kubernetes-operator/issues/",
    "percona-server-mongodb-operator": "https://jira.percona.com/browse/K8SPSMDB-",
    "percona-xtradb-cluster-operator": "https://jira.percona.com/browse/K8SPXC-",
    "rabbitmq-operator": "https://github.com/rabbitmq/cluster-operator/issues/",
    "spotahome-redis-operator": "https://github.com/spotahome/redis-operator/issues/",
    "ot-redis-operator": "https://github.com/OT-CONTAINER-KIT/redis-operator/issues/",
    "tidb-operator": "https://github.com/pingcap/tidb-operator/issues/",
    "zookeeper-operator": "https://github.com/pravega/zookeeper-operator/issues/",
}


def acto_case(
    operator: CorpusOperator, kind: type[Any], report: tuple[str, int], pattern: str, specs: Sequence[Model], *,
    harmful: Collection[int] = (),
) -> CorpusCase:  # fmt: skip
    """Return a case.

    Args:
        operator: creates the operator; its docstring says what it does wrong.
        kind: of the custom resource.
        report: the project, and the number of the report.
        pattern: the column of Acto's table 5.
        specs: what users write, one after the other.
        harmful: the numbers of those that no operator can carry out, from 0.
    """
    factory: Callable[..., Operator] = operator
    project, number = report
    return CorpusCase(
        name=f"{project}-{number}",
        study=Study.ACTO,
        pattern=pattern,
        report=f"{_REPORTS[project]}{number}",
        cause=(operator.__doc__ or "").partition("\n")[0],
        broken=partial(factory, repaired=False),
        repaired=partial(factory, repaired=True),
        kinds=[kind],
        actions=users(kind, specs),
        check=hold_anything,
        harmful=harmful,
    )
