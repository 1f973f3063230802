"""A history with the work of a cluster's controllers: Pods come, are scheduled, get ready and go as they did."""

from __future__ import annotations

from typing import Any

import envtest
from opsdk import Context, ObjectMeta, Operator
from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap, Pod
from opsdk.apimachinery.object import Unstructured
from opsdk.client.patch import merge_patch
from opsdk.engine.foreign_changes import simulated_controllers
from opsdk.testing.simulate import Simulation, Step, World
from tests.engine.played_histories import comparable, history_of, play

LABELS = {"app": "web"}


def make_operator() -> Operator:
    """Return an operator that has a Deployment, and looks at Pods."""
    operator = Operator("web")

    @operator.reconciler(ConfigMap, owns=[Deployment])
    async def reconcile(source: ConfigMap, ctx: Context) -> None:
        if source.metadata.name == "source":
            await ctx.client.apply(deployment(int(source.data["replicas"])), field_owner="web", force=True)

    @operator.reconciler(Pod)
    async def look_at_pods(pod: Pod, ctx: Context) -> None:
        pass

    return operator


def deployment(replicas: int) -> Unstructured:
    """Return the Deployment."""
    pod = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "web", "image": "web:1"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": pod}
    metadata = {"name": "web", "namespace": "default"}
    return Unstructured.from_tree({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})


async def make_source(world: World) -> None:
    """Create the source with two replicas."""
    meta = ObjectMeta(name="source", namespace="default")
    await world.client.create(ConfigMap(metadata=meta, data={"replicas": "2"}))


async def scale_down(world: World) -> None:
    """Change the source to one replica."""
    source = ConfigMap(metadata=ObjectMeta(name="source", namespace="default"))
    await world.client.patch(source, merge_patch({"data": {"replicas": "1"}}))


async def accept(world: World) -> None:
    """Accept every end."""


def make_environment() -> Any:
    """Return a cluster with all controllers."""
    return envtest.Environment(controllers="cluster")


def test_pods_are_those_of_the_recording() -> None:
    """With their names. Their owners were not recorded: ReplicaSets are not in a cache."""
    simulation = Simulation(
        operator=make_operator,
        environment=make_environment,
        actions=[make_source, scale_down],
        check=accept,
        replicas=1,
    )
    steps = [Step(time=5.0, name="make_source"), Step(time=20.0, name="scale_down")]
    _, starts = simulation.record(1, steps)
    recorded = history_of(starts[0].records, simulation)
    assert recorded is not None
    controllers = simulated_controllers(recorded.history)
    assert controllers == "cluster,-deployment,-kubelet,-pod-garbage-collector,-replicaset"
    objects, played = play(simulation, recorded, controllers)
    assert [each.skipped for each in played if each.skipped] == []
    kinds = ["ConfigMap", "Deployment", "Pod"]
    expected = comparable([without_owners(obj) for obj in recorded.end], kinds)
    assert comparable([without_owners(obj) for obj in objects], kinds) == expected
    assert sum(name.startswith("Pod ") for name in expected) == 1


def without_owners(obj: Any) -> Any:
    """Return an object without owner references."""
    metadata = {name: value for name, value in obj["metadata"].items() if name != "ownerReferences"}
    return {**obj, "metadata": metadata}
