"""Laws of `envtest.controllers.garbage_collector` and its core."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from envtest.controllers.owner_references import OwnerState, Verdict, attempt_to_delete_verdict
from envtest.environment import Environment
from opsdk.errors import NotFoundError
from opsdk.structured_merge.value import JsonObject
from tests.envtest.controllers.cluster import APPS, CORE, Kubectl, config_map, deployment, reference, settle

NODES = "/api/v1/nodes"


def owned(*states: OwnerState) -> tuple[JsonObject, dict[str, OwnerState]]:
    """An object with an owner in each state."""
    owners = [{"uid": str(number)} for number in range(len(states))]
    return {"metadata": {"uid": "me", "ownerReferences": owners}}, {str(n): s for n, s in enumerate(states)}


@pytest.mark.parametrize(
    ("states", "dependents", "verdict"),
    [
        ([], False, Verdict.KEEP),
        ([OwnerState.SOLID], False, Verdict.KEEP),
        ([OwnerState.ABSENT], False, Verdict.COLLECT),
        ([OwnerState.ABSENT, OwnerState.SOLID], False, Verdict.PRUNE),
        ([OwnerState.WAITING, OwnerState.SOLID], False, Verdict.PRUNE),
        ([OwnerState.ABSENT, OwnerState.UNKNOWN], False, Verdict.KEEP),
        ([OwnerState.WAITING], False, Verdict.COLLECT),
        ([OwnerState.WAITING], True, Verdict.COLLECT_FOREGROUND),
        ([OwnerState.ABSENT], True, Verdict.COLLECT),
    ],
)
def test_owner_states_decide_the_verdict(states: list[OwnerState], dependents: bool, verdict: Verdict) -> None:
    """An object without living owners is collected; with one, it loses only the dangling references."""
    obj, looks = owned(*states)
    assert attempt_to_delete_verdict(obj, lambda ref: looks[ref["uid"]], has_dependents=dependents).verdict is verdict


async def test_background_deletion_deletes_dependents() -> None:
    """Deleting a Deployment in the background deletes its replica sets and pods."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", deployment("web", replicas=3))
        await settle()
        await api.delete(f"{APPS}/deployments/web")
        await settle()
        assert await api.names(f"{APPS}/replicasets") == []
        assert await api.names(f"{CORE}/pods") == []


async def test_foreground_deletion_waits_for_blocking_dependents() -> None:
    """In the foreground, the owner stays until the last blocking dependent is gone."""
    async with Environment(controllers=["garbage-collector"]) as env:
        api = Kubectl(env)
        owner = await api.create(f"{CORE}/configmaps", config_map("owner"))
        held = config_map("held", owner, finalizers=["example.com/hold"])
        await api.create(f"{CORE}/configmaps", held)
        free = config_map("free")
        free["metadata"]["ownerReferences"] = [reference(owner, block=False)]
        await api.create(f"{CORE}/configmaps", free)
        await api.delete(f"{CORE}/configmaps/owner", propagationPolicy="Foreground")
        await settle()
        assert await api.names(f"{CORE}/configmaps") == ["held", "owner"]
        await api.merge(f"{CORE}/configmaps/held", {"metadata": {"finalizers": None}})
        await settle()
        assert await api.names(f"{CORE}/configmaps") == []


async def test_foreground_reaches_down() -> None:
    """In the foreground grandchildren go first, then children, then the owner."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", deployment("web", replicas=2))
        await settle()
        gone: list[str] = []
        watch = env.plane.storage
        watches = {k: watch.watch_now(p) for k, p in (("d", "apps/deployments/"), ("r", "apps/replicasets/"))}
        pods = watch.watch_now("core/pods/")
        await api.delete(f"{APPS}/deployments/web", propagationPolicy="Foreground")
        await settle()
        last: dict[str, int] = {}
        for name, item in (*watches.items(), ("p", pods)):
            while item.progress() is None:
                change = await anext(item)
                if change.kind.value == "delete":
                    last[name] = change.revision
            item.close()
        gone.extend(sorted(last, key=lambda name: last[name]))
        assert gone == ["p", "r", "d"]


async def test_orphaned_dependents_lose_their_owner_reference() -> None:
    """Orphaning keeps replica set and pods without owner reference; a new Deployment adopts them."""
    async with Environment(controllers="cluster") as env:
        api = Kubectl(env)
        await api.create(f"{APPS}/deployments", deployment("web", replicas=2))
        await settle()
        pods = await api.names(f"{CORE}/pods")
        await api.delete(f"{APPS}/deployments/web", propagationPolicy="Orphan")
        await settle()
        with pytest.raises(NotFoundError):
            await api.get(f"{APPS}/deployments/web")
        [replica_set] = await api.items(f"{APPS}/replicasets")
        assert "ownerReferences" not in replica_set["metadata"]
        assert await api.names(f"{CORE}/pods") == pods
        await api.create(f"{APPS}/deployments", deployment("web", replicas=2))
        await settle()
        [replica_set] = await api.items(f"{APPS}/replicasets")
        assert replica_set["metadata"]["ownerReferences"][0]["kind"] == "Deployment"
        assert await api.names(f"{CORE}/pods") == pods


async def test_a_living_owner_keeps() -> None:
    """While one owner exists, the object stays, and loses only references to deleted owners."""
    async with Environment(controllers=["garbage-collector"]) as env:
        api = Kubectl(env)
        first = await api.create(f"{CORE}/configmaps", config_map("first"))
        second = await api.create(f"{CORE}/configmaps", config_map("second"))
        await api.create(f"{CORE}/configmaps", config_map("child", first, second))
        await api.delete(f"{CORE}/configmaps/first")
        await settle()
        child = await api.get(f"{CORE}/configmaps/child")
        assert [o["name"] for o in child["metadata"]["ownerReferences"]] == ["second"]
        await api.delete(f"{CORE}/configmaps/second")
        await settle()
        assert await api.names(f"{CORE}/configmaps") == []


async def test_another_uid_is_another_owner() -> None:
    """An owner reference with another uid or across namespaces is dangling."""
    async with Environment(controllers=["garbage-collector"]) as env:
        api = Kubectl(env)
        owner = await api.create(f"{CORE}/configmaps", config_map("owner"))
        imposter = {**owner, "metadata": {**owner["metadata"], "uid": "somebody-else"}}
        await api.create(f"{CORE}/configmaps", config_map("child", imposter))
        await api.create("/api/v1/namespaces/kube-public/configmaps", config_map("far", owner))
        await api.create(f"{CORE}/configmaps", config_map("near", owner))
        await settle()
        assert await api.names(f"{CORE}/configmaps") == ["near", "owner"]
        assert await api.names("/api/v1/namespaces/kube-public/configmaps") == []


async def test_a_cluster_scoped_dependent_of_a_namespaced_owner_stays() -> None:
    """A cluster-scoped object with a namespaced owner gets a warning event and is not deleted."""
    async with Environment(controllers=["garbage-collector"]) as env:
        api = Kubectl(env)
        node = await api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})
        await api.create(f"{CORE}/configmaps", config_map("of-node", node))
        owner = await api.create(f"{CORE}/configmaps", config_map("owner"))
        odd = {"name": "odd", "ownerReferences": [reference(owner)]}
        await api.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": odd})
        await settle()
        assert await api.names(NODES) == ["n", "odd"]
        [event] = await api.items(f"{CORE}/events")
        assert event["reason"] == "OwnerRefInvalidNamespace"
        await api.delete(f"{NODES}/n")
        await settle()
        assert await api.names(f"{CORE}/configmaps") == ["owner"]


async def test_unknown_kinds_are_left_alone() -> None:
    """An owner of a kind that is not served counts as unknown, and not as deleted."""
    async with Environment(controllers=["garbage-collector"]) as env:
        api = Kubectl(env)
        owner = {"apiVersion": "example.com/v1", "kind": "Unheard", "metadata": {"name": "x", "uid": "u"}}
        await api.create(f"{CORE}/configmaps", config_map("child", owner))
        await settle()
        assert await api.names(f"{CORE}/configmaps") == ["child"]


async def test_ownership_cycles_are_collected() -> None:
    """Objects that own each other are deleted, in the foreground too."""
    async with Environment(controllers=["garbage-collector"]) as env:
        api = Kubectl(env)
        first = await api.create(f"{CORE}/configmaps", config_map("first"))
        second = await api.create(f"{CORE}/configmaps", config_map("second", first))
        await api.merge(f"{CORE}/configmaps/first", {"metadata": {"ownerReferences": [reference(second)]}})
        await settle()
        await api.delete(f"{CORE}/configmaps/first", propagationPolicy="Foreground")
        await settle()
        assert await api.names(f"{CORE}/configmaps") == []


def _survivors(owners: dict[str, set[str]], gone: set[str]) -> set[str]:
    """Return the objects that background deletion keeps: without owners, or with an owner that is kept."""
    remaining = set(owners) - gone
    while lost := {name for name in remaining if owners[name] and not owners[name] & remaining}:
        remaining -= lost
    return remaining


@pytest.mark.parametrize("seed", range(20))
async def test_only_unowned_objects_are_collected(seed: int) -> None:
    """In any owner graph and with any policy, exactly the objects without living owners are deleted."""
    rng = random.Random(seed)
    async with Environment(controllers=["garbage-collector"]) as env:
        api = Kubectl(env)
        names = [f"m{number}" for number in range(12)]
        created = {name: await api.create(f"{CORE}/configmaps", config_map(name)) for name in names}
        owners: dict[str, set[str]] = {}
        for name in names:
            others = [n for n in names if n != name]
            owners[name] = set(rng.sample(others, rng.choice([0, 0, 1, 1, 2])))
            references = [reference(created[o], block=rng.random() < 0.5) for o in sorted(owners[name])]
            if references:
                await api.merge(f"{CORE}/configmaps/{name}", {"metadata": {"ownerReferences": references}})
        gone = set(rng.sample(names, 3))
        for name in gone:
            with suppress(NotFoundError):
                policy = rng.choice(["Background", "Foreground"])
                await api.delete(f"{CORE}/configmaps/{name}", propagationPolicy=policy)
            await settle(rng.choice([0, 1]))
        await settle(60)
        remaining = await api.items(f"{CORE}/configmaps")
        assert {o["metadata"]["name"] for o in remaining} == _survivors(owners, gone)
        assert not [o for o in remaining if "deletionTimestamp" in o["metadata"]]
        for obj in remaining:
            held = {r["name"] for r in obj["metadata"].get("ownerReferences") or []}
            assert held == owners[obj["metadata"]["name"]] & {o["metadata"]["name"] for o in remaining}
