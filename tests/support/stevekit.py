"""Objects as a cache holds them."""

from __future__ import annotations

from typing import Any

import msgspec

from opsdk.cache.entry import StoreEntry, make_entry


def entry(name: str, namespace: str = "", revision: int = 1, **parts: Any) -> StoreEntry:
    """An entry of an object with these top-level parts; `labels` go into the metadata."""
    metadata = {"name": name, "resourceVersion": str(revision), "uid": name, "labels": parts.pop("labels", {})}
    if namespace:
        metadata["namespace"] = namespace
    made, _ = make_entry(msgspec.json.encode({"apiVersion": "v1", "kind": "Thing", "metadata": metadata, **parts}))
    return made
