"""Laws of the informers of the simulated controllers."""

from __future__ import annotations

import asyncio

import pytest
from container_sizes import container_sizes
from hypothesis import given
from hypothesis import strategies as st

from envtest.controllers.informers import SharedInformers
from envtest.controllers.writes import PODS, REPLICA_SETS, Resource
from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.apiserver.storage.ports import StorageChange
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.loop import VirtualLoop

DEFINITIONS = Resource(
    group="apiextensions.k8s.io",
    version="v1",
    plural="customresourcedefinitions",
    kind="CustomResourceDefinition",
    namespaced=False,
    prefix="apiextensions.k8s.io/customresourcedefinitions/",
)
WIDGETS = "demo.dev/widgets/"


def pod(uid: str, *, owner: str = "", node: str = "") -> JsonObject:
    """Return a pod, with a controller if `owner` is its uid."""
    owners = [{"uid": owner, "controller": True}] if owner else []
    return {"metadata": {"uid": uid, "ownerReferences": owners}, "spec": {"nodeName": node}}


def definition() -> JsonObject:
    """Return the definition of widgets."""
    names = {"plural": "widgets", "kind": "Widget"}
    return {
        "metadata": {"uid": "d"},
        "spec": {"group": "demo.dev", "scope": "Namespaced", "names": names, "versions": [{"name": "v1"}]},
    }


class Watcher:
    """Informers with a handler that records what it gets."""

    def __init__(self, storage: MemoryStorage) -> None:
        self.informers = SharedInformers(storage, [PODS, REPLICA_SETS, DEFINITIONS])
        self.events: list[tuple[str, str, str]] = []
        self.informers.add_event_handler_for_all(self._record)
        self.informers.start()

    def _record(self, change: StorageChange) -> None:
        uids = ["" if obj is None else obj["metadata"]["uid"] for obj in (change.previous, change.current)]
        self.events.append((change.key, *uids))


async def test_a_read_shows_each_write_at_once() -> None:
    """Objects and indices show a write before the storage returns; the handlers are called in the next iteration."""
    storage = MemoryStorage()
    watcher = Watcher(storage)
    storage.create_now("core/pods/default/a", pod("1", owner="o", node="n"))
    informers = watcher.informers
    assert informers.get("core/pods/default/a") is not None
    assert informers.dependent_keys("o") == informers.pod_keys_of_node("n") == ["core/pods/default/a"]
    assert watcher.events == []
    await asyncio.sleep(0)
    assert watcher.events == [("core/pods/default/a", "", "1")]


async def test_existing_objects_are_events_of_the_start() -> None:
    """`start` calls the handlers with every existing object."""
    storage = MemoryStorage()
    storage.create_now("core/pods/default/a", pod("1"))
    assert Watcher(storage).events == [("core/pods/default/a", "", "1")]


async def test_a_failing_handler_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    """A handler that raises is logged; the write succeeds, and other handlers get the change."""
    storage = MemoryStorage()
    watcher = Watcher(storage)

    def broken(_: StorageChange) -> None:
        raise RuntimeError("broken")

    watcher.informers.add_event_handler(PODS, broken)
    storage.create_now("core/pods/default/a", pod("1"))
    storage.create_now("core/pods/default/b", pod("2"))
    await asyncio.sleep(0)
    assert [uid for _, _, uid in watcher.events] == ["1", "2"]
    assert caplog.text.count("an event handler failed for core/pods/default") == 2
    caplog.clear()


async def test_a_stopped_informer_calls_no_handler() -> None:
    """After `stop`, neither new changes nor those that wait reach a handler."""
    storage = MemoryStorage()
    watcher = Watcher(storage)
    storage.create_now("core/pods/default/a", pod("1"))
    watcher.informers.stop()
    storage.create_now("core/pods/default/b", pod("2"))
    await asyncio.sleep(1)
    assert watcher.events == []


async def test_a_restored_object_with_another_uid_is_another_object() -> None:
    """A snapshot that has another object under a name leads to a removal and a creation."""
    storage = MemoryStorage()
    storage.create_now("core/pods/default/a", pod("1", owner="o"))
    snapshot = storage.snapshot()
    storage.delete_now("core/pods/default/a")
    storage.create_now("core/pods/default/a", pod("2", owner="p"))
    watcher = Watcher(storage)
    watcher.events.clear()
    storage.restore(snapshot)
    await asyncio.sleep(0)
    assert watcher.events == [("core/pods/default/a", "2", ""), ("core/pods/default/a", "", "1")]
    assert watcher.informers.dependent_keys("p") == []
    assert watcher.informers.dependent_keys("o") == ["core/pods/default/a"]


async def test_a_definition_makes_its_kind_known() -> None:
    """The kind of a definition is served as long as the definition exists; a restored one has its objects."""
    storage = MemoryStorage()
    storage.create_now("apiextensions.k8s.io/customresourcedefinitions/widgets.demo.dev", definition())
    storage.create_now(f"{WIDGETS}default/w", pod("w"))
    snapshot = storage.snapshot()
    storage.delete_now(f"{WIDGETS}default/w")
    storage.delete_now("apiextensions.k8s.io/customresourcedefinitions/widgets.demo.dev")
    watcher = Watcher(storage)
    assert watcher.informers.resource_of("demo.dev/v1", "Widget") is None
    storage.restore(snapshot)
    await asyncio.sleep(0)
    assert watcher.informers.resource_of("demo.dev/v1", "Widget") is not None
    assert watcher.informers.resource_at(f"{WIDGETS}default/w") is not None
    assert (f"{WIDGETS}default/w", "", "w") in watcher.events
    storage.delete_now("apiextensions.k8s.io/customresourcedefinitions/widgets.demo.dev")
    assert watcher.informers.resource_of("demo.dev/v1", "Widget") is None


NAMES = st.sampled_from(["a/x", "a/y", "b/x"])
WRITES = st.lists(
    st.tuples(st.sampled_from(["put", "delete", "snapshot", "restore"]), NAMES, st.sampled_from(["", "o", "p"])),
    max_size=20,
)


@given(WRITES)
def test_indices_equal_the_storage(writes: list[tuple[str, str, str]]) -> None:
    """After any writes and restores, each index holds exactly the objects of the storage."""

    async def run() -> None:
        storage = MemoryStorage()
        informers = Watcher(storage).informers
        snapshot = storage.snapshot()
        for number, (verb, name, owner) in enumerate(writes):
            key = f"core/pods/{name}"
            exists = informers.get(key) is not None
            if verb == "put" and not exists:
                storage.create_now(key, pod(str(number), owner=owner, node=owner))
            elif verb == "delete" and exists:
                storage.delete_now(key)
            elif verb == "snapshot":
                snapshot = storage.snapshot()
            elif verb == "restore":
                storage.restore(snapshot)
            pods = informers.all(PODS)
            for uid in ("o", "p"):
                owned = {k for k, p in pods.items() if uid in [r["uid"] for r in p["metadata"]["ownerReferences"]]}
                assert set(informers.dependent_keys(uid)) == set(informers.pod_keys_of_node(uid)) == owned
            for namespace in ("a", "b"):
                free = [p for p in informers.in_namespace(PODS, namespace) if not p["metadata"]["ownerReferences"]]
                orphans = informers.orphans(PODS, namespace)
                assert sorted(p["metadata"]["uid"] for p in orphans) == sorted(p["metadata"]["uid"] for p in free)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(run())


def index_sizes(informers: SharedInformers) -> dict[str, int]:
    """The sizes of the containers in the indices of the informers."""
    sizes = container_sizes(informers, servers=True)
    return {label: size for label, size in sizes.items() if label.startswith("ObjectIndex.")}


@pytest.mark.slow
async def test_a_deleted_object_leaves_nothing_behind() -> None:
    """After 2,000 pods in as many namespaces, on as many nodes, no container of the informers has grown."""
    storage = MemoryStorage(history_limit=10)
    informers = Watcher(storage).informers
    before = index_sizes(informers)
    assert before
    for number in range(2_000):
        key = f"core/pods/n{number}/p"
        storage.create_now(key, pod(str(number), owner=f"o{number}" if number % 2 else "", node=f"n{number}"))
        storage.delete_now(key)
    await asyncio.sleep(0)
    assert index_sizes(informers) == before
