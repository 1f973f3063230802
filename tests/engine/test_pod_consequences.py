"""Which Pods of a workload restart, and which end."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from opsdk import Context, ObjectMeta
from opsdk.api.core.v1 import Container, Pod, PodSpec
from opsdk.engine.plan import ConsequenceKind
from opsdk.engine.snapshot import ClusterSnapshot
from opsdk.recipes.owner_references import set_controller_reference
from tests.engine.upgrades import Version, plan_for, state_of, workload


def one(kind: str, **changes: Any) -> Version:
    """A version whose App has one workload."""
    return Version(children=lambda name: [workload(kind, name, **changes)])


@cache
def state(kind: str, replicas: int) -> ClusterSnapshot:
    """The cluster with a workload of some replicas."""
    return state_of(one(kind, replicas=replicas) if replicas else one(kind))


def messages(state: ClusterSnapshot, new: Version) -> list[str]:
    """What the plan of a new version says about Pods."""
    kinds = {ConsequenceKind.PODS_RESTART, ConsequenceKind.PODS_REMOVED}
    return [each.message for each in plan_for(new, state).consequences if each.kind in kinds]


@pytest.mark.parametrize(
    ("kind", "old", "new", "expected"),
    [
        ("Deployment", 5, {"replicas": 3}, ["2 of 5 Pods end"]),
        ("Deployment", 5, {"replicas": 0}, ["no Pod is left of 5"]),
        ("Deployment", 2, {"replicas": 5}, []),
        ("Deployment", 5, {"replicas": 5, "image": "app:2"}, ["5 of 5 Pods restart"]),
        (
            "Deployment",
            5,
            {"replicas": 2, "image": "app:2"},
            ["2 of 5 Pods restart", "3 of 5 Pods end"],
        ),
        ("Deployment", 2, {"replicas": 5, "image": "app:2"}, ["2 of 2 Pods restart"]),
        ("ReplicaSet", 3, {"replicas": 1}, ["2 of 3 Pods end"]),
        ("ReplicaSet", 3, {"replicas": 0}, ["no Pod is left of 3"]),
        ("StatefulSet", 3, {"replicas": 1}, ["2 of 3 Pods end: app-0-1, app-0-2"]),
        (
            "StatefulSet",
            3,
            {"replicas": 2, "image": "app:2"},
            ["2 of 3 Pods restart: app-0-0, app-0-1", "1 of 3 Pods end: app-0-2"],
        ),
        ("StatefulSet", 3, {"replicas": 0, "image": "app:2"}, ["no Pod is left of 3"]),
        ("DaemonSet", 0, {"image": "app:2"}, ["1 of 1 Pods restart"]),
    ],
)
def test_a_pod_restarts_if_a_new_one_takes_its_place(
    kind: str, old: int, new: dict[str, Any], expected: list[str]
) -> None:
    """The others end."""
    assert messages(state(kind, old), one(kind, **new)) == expected


def test_a_daemon_without_a_node_ends() -> None:
    """No node has the label of the new selector."""
    template = workload("DaemonSet", "app-0")["spec"]["template"]
    template["spec"]["nodeSelector"] = {"disk": "fast"}
    assert messages(state("DaemonSet", 0), one("DaemonSet", template=template)) == ["no Pod is left of 1"]


def test_pods_of_a_custom_resource_are_told_by_their_names() -> None:
    """An operator that makes Pods itself: one is made again, and one is not."""

    def version(image: str, *suffixes: str) -> Version:
        async def write(app: Any, ctx: Context) -> None:
            for suffix in ("a", "b"):
                meta = ObjectMeta(name=f"{app.metadata.name}-{suffix}", namespace="default")
                pod = Pod(metadata=meta, spec=PodSpec(containers=[Container(name="app", image=image)]))
                existing = await ctx.client.get_or_none(Pod, meta.name, namespace="default", uncached=True)
                if existing is not None and (suffix not in suffixes or existing.spec.containers[0].image != image):
                    await ctx.client.delete(existing, grace_period_seconds=0)
                    existing = None
                if existing is None and suffix in suffixes:
                    set_controller_reference(app, pod)
                    await ctx.client.create(pod)

        return Version(before=write)

    assert messages(state_of(version("app:1", "a", "b")), version("app:2", "a")) == [
        "1 of 2 Pods restart: app-0-a",
        "1 of 2 Pods end: app-0-b",
    ]
