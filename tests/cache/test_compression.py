"""Laws of `opsdk.cache.compression`, alone and in a store."""

from __future__ import annotations

import json
import random

from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.cache.compression import Compressor, decompress
from opsdk.cache.store import InformerStore
from opsdk.structured_merge.value import JsonObject


def pod(number: int, *, app: str = "web", variables: int = 60) -> JsonObject:
    """Return a Pod of about 4 kB; Pods of one app differ in little."""
    environment = [{"name": f"{app.upper()}_{index}", "value": f"{app} {index * 7919}"} for index in range(variables)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{app}-{number}",
            "namespace": "default",
            "uid": f"uid-{number}",
            "resourceVersion": str(number + 1),
            "labels": {"app": app},
        },
        "spec": {"containers": [{"name": "main", "image": f"{app}:1", "env": environment}]},
    }


@given(st.lists(st.one_of(st.binary(max_size=100), st.binary(max_size=40).map(lambda part: part * 200)), max_size=40))
def test_compressed_objects_decompress_to_the_same_bytes(objects: list[bytes]) -> None:
    """However the dictionary grows, each object decompresses to itself with the dictionary that it was stored with."""
    compressor = Compressor()
    stored = [compressor.compress(data) for data in objects]
    for data, (piece, dictionary) in zip(objects, stored, strict=True):
        assert (piece if dictionary is None else decompress(piece, dictionary)) == data


def test_similar_objects_share_a_dictionary() -> None:
    """Objects of several apps take a tenth of their size, and few dictionaries serve all of them."""
    compressor = Compressor()
    objects = [json.dumps(pod(number, app=f"app{number % 3}")).encode() for number in range(300)]
    stored = [compressor.compress(data) for data in objects]
    assert sum(len(piece) for piece, _ in stored) < 0.1 * sum(map(len, objects))
    dictionaries = {id(dictionary): dictionary for _, dictionary in stored}
    assert len(dictionaries) <= 4
    assert all(dictionary is not None and len(dictionary) <= 12 * 1024 for dictionary in dictionaries.values())


def test_incompressible_objects_are_stored_uncompressed() -> None:
    """Small, huge and random objects are not compressed, because they gain too little."""
    noise = random.Random(0).randbytes(4000)
    for data in (b"{}" * 100, b"x" * 100_000, noise):
        assert Compressor().compress(data) == (data, None)


def test_a_store_returns_the_bytes_that_were_stored() -> None:
    """Reads, indices that exist and indices that come later see the same JSON, and the store counts what it holds."""
    store = InformerStore()
    store.add_index("app", lambda data: [json.loads(data)["metadata"]["labels"]["app"]])
    trees = [pod(number, app=f"app{number % 2}") for number in range(20)]
    for tree in trees:
        store.put(store.make_entry(json.dumps(tree).encode()))
    for tree in trees:
        entry = store.get(ObjectKey("default", tree["metadata"]["name"]))
        assert entry is not None
        assert json.loads(entry.data) == tree
        assert entry.size == len(json.dumps(tree))
        assert len(entry.stored) < entry.size
    assert len(list(store.by_index("app", "app1"))) == 10
    store.add_index("image", lambda data: [json.loads(data)["spec"]["containers"][0]["image"]])
    keys = store.keys()
    sizes = [store.index_entry(key, "image") for key in keys]
    assert sizes == [len(json.dumps(tree)) for tree in trees]
    assert len(list(store.by_index("image", "app0:1"))) == 10


def test_equal_labels_are_stored_once() -> None:
    """The Pods of a workload share one dict of labels."""
    store = InformerStore()
    first, second = (store.make_entry(json.dumps(pod(number)).encode()) for number in range(2))
    assert first.labels is second.labels
    assert first.labels == {"app": "web"}
