"""Fifty children that are as desired: the requests of a pass, and the time for each child. Fails if a request is sent.

A pass with a warm memory is what a reconciler does mostly. Without memory is the first pass after a restart, or after a
change of every child's status: each live object is compared with its desired one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from benchmarks.clients.opsdk import RequestCounter
from envtest.environment import Environment
from opsdk import Cluster, ObjectMeta
from opsdk.api.apps.v1 import Deployment, DeploymentSpec
from opsdk.api.core.v1 import ConfigMap, Container, EnvVar, PodSpec, PodTemplateSpec, ResourceRequirements
from opsdk.apimachinery.meta import LabelSelector
from opsdk.apimachinery.object import origin_of, to_dict
from opsdk.apimachinery.quantity import Quantity
from opsdk.children.applier import Applier
from opsdk.children.comparison import compare
from opsdk.children.field_types import built_in_type
from opsdk.children.ownership import fields_to_own

CHILDREN = 50
ROUNDS = 10


def child(number: int) -> Deployment:
    """A deployment whose live object has about 5 kB."""
    labels = {"app": f"child-{number}"}
    variables = [EnvVar(name=f"VARIABLE_{index}", value=f"value {index}") for index in range(20)]
    limits = {"memory": Quantity("1024Mi"), "cpu": Quantity("0.5")}
    container = Container(name="main", image="nginx:1", env=variables, resources=ResourceRequirements(limits=limits))
    template = PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=PodSpec(containers=[container]))
    spec = DeploymentSpec(replicas=2, selector=LabelSelector(match_labels=labels), template=template)
    return Deployment(metadata=ObjectMeta(name=f"child-{number}", namespace="default", labels=labels), spec=spec)


async def run() -> None:
    """Print the figures."""
    requests = RequestCounter()
    async with Environment() as env, Cluster(env.config, hook=requests) as cluster:
        running = asyncio.create_task(cluster.start())
        await cluster.wait_ready()
        owner = await cluster.client.create(ConfigMap(metadata=ObjectMeta(name="owner", namespace="default")))
        desired = [child(number) for number in range(CHILDREN)]
        applier = Applier(cluster.client, field_owner="bench")
        await applier.apply_all(desired, owner=owner, prune=[Deployment])
        requests.count = 0
        print(f"{CHILDREN} children as desired, one pass of apply_all with pruning:")
        await _passes("with memory", lambda: applier, desired, owner)
        await _passes("after a restart", lambda: Applier(cluster.client, field_owner="bench"), desired, owner)
        print(f"  requests: {requests.count}")
        if requests.count:
            raise SystemExit("a child that is as desired cost a request")
        _compare_alone(await cluster.client.get(Deployment, "default/child-0"))
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def _passes(name: str, applier: Callable[[], Applier], desired: list[Deployment], owner: ConfigMap) -> None:
    best = float("inf")
    for _ in range(ROUNDS):
        current = applier()
        began = time.perf_counter()
        await current.apply_all(desired, owner=owner, prune=[Deployment])
        best = min(best, time.perf_counter() - began)
    print(f"  {name:16} {best / len(desired) * 1e6:8.0f} us for each child")


def _compare_alone(live: Deployment) -> None:
    field_type, origin = built_in_type(Deployment.gvk), origin_of(live)
    assert field_type is not None
    assert origin is not None
    tree = to_dict(child(0))
    to_own = fields_to_own(tree, field_type.schema)
    best = float("inf")
    for _ in range(100):
        began = time.perf_counter()
        compare(origin, tree, field_type, to_own=to_own, field_owner="bench")
        best = min(best, time.perf_counter() - began)
    print(f"  comparison alone {best * 1e6:8.0f} us")
