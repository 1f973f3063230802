"""The newest object of a store, and the objects of an owner."""

from __future__ import annotations

import random

import msgspec
import pytest

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.cache.entry import StoreEntry
from opsdk.cache.own_writes import revision_of
from opsdk.cache.store import InformerStore


def entry_of(store: InformerStore, name: str, revision: int, *owners: str) -> StoreEntry:
    """Return the entry of an object with this resource version and these owners."""
    references = [{"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner} for owner in owners]
    meta = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(revision)}
    return store.make_entry(msgspec.json.encode({"metadata": {**meta, "ownerReferences": references}}))


@pytest.mark.parametrize("seed", range(30))
def test_the_newest_object_has_the_highest_resource_version(seed: int) -> None:
    """After lists, watch events, deletions and late indices, no object of the store is newer than the newest one."""
    rng = random.Random(seed)
    store = InformerStore()
    assert store.newest_entry() is None
    revision = 0
    for step in range(60):
        name, roll = f"o{rng.randrange(5)}", rng.random()
        revision += rng.randrange(1, 4)
        if roll < 0.5:
            store.put(entry_of(store, name, revision), watched=True)
        elif roll < 0.75:
            store.remove(ObjectKey("ns", name))
        elif roll < 0.9:
            listed = store.replacement()
            for number in rng.sample(range(5), rng.randrange(5)):
                listed.add(entry_of(store, f"o{number}", rng.randrange(1, revision + 1)))
            list(store.replace(listed, resource_version=str(revision)))
        else:
            store.add_index(f"index {step}", lambda data: ["x"])
            for entry in list(store.entries()):
                store.index_entry(entry.key, f"index {step}")
        if rng.random() < 0.6:
            newest = store.newest_entry()
            revisions = [revision_of(entry.resource_version) or 0 for entry in store.entries()]
            assert (newest is None) == (not revisions)
            assert newest is None or revision_of(newest.resource_version) == max(revisions)
            assert newest is None or newest is store.get(newest.key)


@pytest.mark.parametrize("seed", range(30))
def test_the_objects_of_an_owner_are_those_that_refer_to_it(seed: int) -> None:
    """After lists, watch events and deletions, an owner's objects are those with a reference to its uid."""
    rng = random.Random(seed)
    store = InformerStore()
    for revision in range(1, 61):
        roll, owners = rng.random(), rng.choices("abc", k=rng.randrange(3))
        if roll < 0.6:
            store.put(entry_of(store, f"o{rng.randrange(5)}", revision, *owners), watched=True)
        elif roll < 0.85:
            store.remove(ObjectKey("ns", f"o{rng.randrange(5)}"))
        else:
            listed = store.replacement()
            for number in rng.sample(range(5), rng.randrange(5)):
                listed.add(entry_of(store, f"o{number}", revision, *rng.choices("abc", k=rng.randrange(3))))
            list(store.replace(listed, resource_version=str(revision)))
        if rng.random() < 0.6:
            for owner in "abc":
                expected = {e.key for e in store.entries() if owner in [reference.uid for reference in e.owners]}
                assert {e.key for e in store.by_owner(owner, "ns")} == expected
                assert not list(store.by_owner(owner, "other"))
