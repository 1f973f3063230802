"""What a cached Pod costs, as bytes and as objects: memory, and an isolated read."""

from __future__ import annotations

import copy
import gc
import json
import time
import tracemalloc
from collections.abc import Callable

from opsdk import Kind, Unstructured
from opsdk.api.core.v1 import Pod
from opsdk.apimachinery.codec import decode
from opsdk.cache.store import InformerStore
from opsdk.structured_merge.value import JsonObject

_POD: JsonObject = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-0",
        "namespace": "default",
        "uid": "9768578b-b9c1-4651-bd20-3652ebfca41d",
        "resourceVersion": "1",
        "labels": {"app": "web", "tier": "front", "pod-template-hash": "5d6f7c8b9"},
        "annotations": {"note": "x" * 200},
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}
        ],
    },
    "spec": {
        "containers": [
            {
                "name": f"c{n}",
                "image": "nginx:1.27",
                "env": [{"name": f"VAR_{m}", "value": "v" * 20} for m in range(10)],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                "ports": [{"containerPort": 80, "protocol": "TCP"}],
            }
            for n in range(2)
        ]
    },
    "status": {"phase": "Running", "conditions": [{"type": t, "status": "True"} for t in ("Ready", "PodScheduled")]},
}


def _data(number: int) -> bytes:
    meta = {**_POD["metadata"], "name": f"web-{number}", "uid": f"uid-{number}"}
    return json.dumps({**_POD, "metadata": meta}).encode()


def _seconds(work: Callable[[], object], times: int = 2000) -> float:
    work()
    began = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - began) / times


def _memory(make: Callable[[int], object], count: int = 2000) -> float:
    gc.collect()
    tracemalloc.start()
    kept = [make(n) for n in range(count)]
    size = tracemalloc.get_traced_memory()[0] / count
    tracemalloc.stop()
    del kept
    return size


def run() -> None:
    """Print the table."""
    store = InformerStore()
    as_dict = json.loads(_data(0))
    as_typed = decode(_data(0), Kind(Pod.gvk, Pod))
    entry = _memory(lambda n: store.put(store.make_entry(_data(n))))
    trees = _memory(lambda n: json.loads(_data(n)))
    print(f"one Pod of {len(_data(0))} bytes of JSON")
    print(f"  kept by the store: {entry / 1024:.1f} KiB; as dicts {trees / entry:.1f} times as much")
    read = _seconds(lambda: decode(_data(0), Kind(Pod.gvk, Pod)))
    loose = _seconds(lambda: decode(_data(0), Kind(Pod.gvk, Unstructured)))
    dict_copy = _seconds(lambda: copy.deepcopy(as_dict))
    typed_copy = _seconds(lambda: copy.deepcopy(as_typed))
    make = _seconds(lambda: _data(0))
    print(f"  an isolated read: typed {(read - make) * 1e6:.0f} us, unstructured {(loose - make) * 1e6:.0f} us")
    print(f"  a deep copy instead: of dicts {dict_copy / (read - make):.1f} times as long as the typed read, ", end="")
    print(f"of typed objects {typed_copy / (read - make):.1f} times")
