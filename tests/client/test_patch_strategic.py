"""Strategic merge patches made from the difference of two objects."""

from __future__ import annotations

import msgspec
import pytest

import envtest
from opsdk import Cluster, LabelSelector, ObjectMeta
from opsdk.api.apps.v1 import Deployment, DeploymentSpec
from opsdk.api.core.v1 import Container, EnvVar, PodSpec, PodTemplateSpec
from opsdk.apimachinery.codec import decode, encode
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import kind_of
from opsdk.apimachinery.object import Unstructured, deep_copy
from opsdk.client.patch import StrategicMergeFrom
from opsdk.errors import ConflictError, UsageError


def deployment() -> Deployment:
    """Two containers."""
    containers = [Container(name=n, image=f"{n}:1", env=[EnvVar(name="A", value="1")]) for n in ("web", "side")]
    template = PodTemplateSpec(metadata=ObjectMeta(labels={"a": "b"}), spec=PodSpec(containers=containers))
    spec = DeploymentSpec(selector=LabelSelector(match_labels={"a": "b"}), template=template)
    return Deployment(metadata=ObjectMeta(name="d", namespace="default"), spec=spec)


def containers_of(made: Deployment) -> list[Container]:
    """Its containers."""
    assert made.spec.template.spec is not None
    return made.spec.template.spec.containers


def test_only_the_changed_item_is_sent() -> None:
    """A change in one container names that container and nothing else of it."""
    base = deployment()
    changed = deep_copy(base)
    containers_of(changed)[1].image = "side:2"
    sent = msgspec.json.decode(StrategicMergeFrom(base).data(changed))
    spec = sent["spec"]["template"]["spec"]
    assert {"name": "side", "image": "side:2"} in spec["containers"]
    assert len(spec["containers"]) == 1
    assert StrategicMergeFrom(base).data(deep_copy(base)) == b"{}"
    read = decode(encode(base), kind_of(Deployment))
    containers_of(read)[1].image = "side:2"
    assert msgspec.json.decode(StrategicMergeFrom().data(read)) == sent


async def test_two_writers_change_two_containers() -> None:
    """The changes of two writers to two containers are both kept, because the list merges by name."""
    async with envtest.Environment() as env, Cluster(env.config) as cluster:
        first = await cluster.uncached.create(deployment())
        second = await cluster.uncached.get(Deployment, "default/d")
        before_first, before_second = deep_copy(first), deep_copy(second)
        containers_of(first)[0].image = "web:2"
        containers_of(second)[1].image = "side:2"
        await cluster.uncached.patch(first, StrategicMergeFrom(before_first))
        await cluster.uncached.patch(second, StrategicMergeFrom(before_second))
        live = await cluster.uncached.get(Deployment, "default/d")
        assert [c.image for c in containers_of(live)] == ["web:2", "side:2"]
        containers_of(second)[0].image = "web:3"
        with pytest.raises(ConflictError):
            await cluster.uncached.patch(second, StrategicMergeFrom(before_second, optimistic_lock=True))


def test_custom_kinds_have_none() -> None:
    """The error says what to use instead."""
    gvk = GroupVersionKind("x.dev", "v1", "Thing")
    with pytest.raises(UsageError, match="use MergeFrom"):
        StrategicMergeFrom(Unstructured(gvk.api_version, gvk.kind))
