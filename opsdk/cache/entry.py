"""Entries of a store, made from an object's JSON. Pure.

Index and transform functions belong to the user. One that raises never hides an object: the entry is made without that
index, or from the untransformed object, and the failure is returned with it.

Upstream: k8s.io/client-go/tools/cache/index.go (v1.36)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from opsdk.aio.containment import contain
from opsdk.apimachinery.codec import decode_partial
from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.cache.compression import SMALLEST, Compressor, decompress
from opsdk.cache.head import HeadMeta, OwnerHead, decode_head
from opsdk.errors import DecodeError, UsageError
from opsdk.structured_merge.value import JsonObject

TRANSFORM = "transform"
"""The name of the transform in `Problem.function` and `StoreEntry.failed`."""

Transform = Callable[[JsonObject], JsonObject]
"""Changes an object's JSON tree before it is stored."""

Indexer = Callable[[bytes], Iterable[str]]
"""Returns the index values of an object in JSON."""


class OwnerRef(NamedTuple):
    """The identifying fields of an owner reference."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool


class Problem(msgspec.Struct, frozen=True):
    """An object that does not decode, or that a user function failed on.

    Attributes:
        key: namespace and name, empty where unreadable.
        error: the exception.
        function: the user function, such as ``index 'owner'``; empty for an undecodable object.
    """

    key: ObjectKey
    error: BaseException
    function: str = ""


# Makes a named tuple without a Python frame: each object of a list has one.
_new_tuple = tuple.__new__
_NO_INDICES: Mapping[str, tuple[str, ...]] = {}
_NO_LABELS: Mapping[str, str] = {}


class StoreEntry(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One stored object.

    Attributes:
        key: namespace and name.
        stored: the object as JSON, compressed if there is a dictionary.
        dictionary: see `opsdk.cache.compression`; None for an object that is not compressed.
        decompressed_size: bytes of the JSON; 0 for an object that is not compressed: so small an int takes no memory.
        deleting: whether the object has a deletion timestamp.
        owners: the owner references.
        indexed: values for each index, computed when the entry was created.
        failed: the user functions that raised for this object.
    """

    key: ObjectKey
    stored: bytes
    dictionary: bytes | None
    decompressed_size: int
    uid: str
    resource_version: str
    generation: int
    deleting: bool
    labels: Mapping[str, str]
    finalizers: tuple[str, ...]
    owners: tuple[OwnerRef, ...]
    indexed: Mapping[str, tuple[str, ...]]
    failed: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of the JSON."""
        return self.decompressed_size or len(self.stored)

    @property
    def data(self) -> bytes:
        """The object as JSON. A large one is decompressed each time."""
        return self.stored if self.dictionary is None else decompress(self.stored, self.dictionary)

    def metadata(self) -> ObjectMeta:
        """Decode all metadata. Returns a new object."""
        return decode_partial(self.data).metadata

    def __repr__(self) -> str:
        return f"<StoreEntry {self.key} at {self.resource_version}, {self.size} bytes>"


def index_function(name: str) -> str:
    """Return the name of an index in `Problem.function` and `StoreEntry.failed`."""
    return f"index {name!r}"


def make_entry(
    data: bytes,
    indexers: Mapping[str, Indexer] | None = None,
    transform: Transform | None = None,
    *,
    meta: HeadMeta | None = None,
    compressor: Compressor | None = None,
) -> tuple[StoreEntry, list[Problem]]:
    """Return the entry of an object, and the user functions that failed on it.

    Args:
        data: the object as JSON.
        indexers: index functions by name.
        transform: changes the object before it is stored.
        meta: the decoded metadata of `data`, if the caller has it.
        compressor: compresses the object; None stores it as it is.

    Raises:
        DecodeError: the metadata is unreadable.
    """
    if meta is None:
        meta = decode_head(data).metadata
    if not meta.name or not meta.resource_version:
        raise DecodeError(f"an object without name or resourceVersion: {data[:80]!r}")
    key = _new_tuple(ObjectKey, (sys.intern(meta.namespace), meta.name))
    problems: list[Problem] = []
    if transform is not None:
        try:
            data, meta = _apply_transform(data, meta, transform)
        except BaseException as error:  # noqa: BLE001 - a user function may raise anything
            contain(error)
            problems.append(Problem(key, error, TRANSFORM))
    # Before the compression: index functions read the JSON.
    indexed = _index_all(key, data, indexers, problems) if indexers else _NO_INDICES
    stored, dictionary, decompressed_size = data, None, 0
    if compressor is not None and len(data) >= SMALLEST:
        stored, dictionary = compressor.compress(data)
        decompressed_size = len(data) if dictionary is not None else 0
    entry = StoreEntry(
        key=key,
        stored=stored,
        dictionary=dictionary,
        decompressed_size=decompressed_size,
        uid=meta.uid,
        resource_version=meta.resource_version,
        generation=meta.generation,
        deleting=meta.deletion_timestamp is not None,
        labels=_label_set(tuple(meta.labels.items())) if meta.labels else _NO_LABELS,
        finalizers=tuple(map(sys.intern, meta.finalizers)) if meta.finalizers else (),
        owners=tuple(map(_owner_ref, meta.owner_references)) if meta.owner_references else (),
        indexed=indexed,
        failed=tuple([problem.function for problem in problems]) if problems else (),
    )
    return entry, problems


@lru_cache(maxsize=4096)  # the Pods of a workload share their labels: one dict for all saves 184 bytes for each
def _label_set(items: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Return the labels as a dict. It is shared: do not change it."""
    return {sys.intern(key): sys.intern(value) for key, value in items}


def _owner_ref(reference: OwnerHead) -> OwnerRef:
    api_version, kind = sys.intern(reference.api_version), sys.intern(reference.kind)
    return OwnerRef(api_version, kind, reference.name, reference.uid, bool(reference.controller))


def with_index(entry: StoreEntry, name: str, indexer: Indexer) -> tuple[StoreEntry, list[Problem]]:
    """Return the entry with the values of one more index, and the problem if the function failed."""
    values = _index_values(entry.key, entry.data, name, indexer)
    if isinstance(values, Problem):
        return replace(entry, failed=(*entry.failed, values.function)), [values]
    return replace(entry, indexed={**entry.indexed, name: values}), []


def _index_all(
    key: ObjectKey, data: bytes, indexers: Mapping[str, Indexer], problems: list[Problem]
) -> Mapping[str, tuple[str, ...]]:
    """Return the values for each index, and add the functions that fail to the problems."""
    indexed: dict[str, tuple[str, ...]] = {}
    for name, indexer in indexers.items():
        values = _index_values(key, data, name, indexer)
        if isinstance(values, Problem):
            problems.append(values)
        else:
            indexed[name] = values
    return indexed


def _index_values(key: ObjectKey, data: bytes, name: str, indexer: Indexer) -> tuple[str, ...] | Problem:
    try:
        values = tuple(indexer(data))
        for value in values:
            if not isinstance(value, str):
                raise UsageError(f"index {name!r} returned {value!r}: index functions return strings")  # noqa: TRY301 - one way out
    except BaseException as error:  # noqa: BLE001 - a user function may raise anything
        contain(error)
        return Problem(key, error, index_function(name))
    return values


def _apply_transform(data: bytes, before: HeadMeta, transform: Transform) -> tuple[bytes, HeadMeta]:
    """Return the transformed object. Raises `UsageError` if its identity is not the same."""
    tree = transform(msgspec.json.decode(data, type=dict))
    if not isinstance(tree, dict):
        raise UsageError(f"the transform returned {type(tree).__name__}: return the object's JSON tree")
    changed = msgspec.json.encode(tree)
    after = decode_head(changed).metadata
    for field in ("name", "namespace", "uid", "resource_version"):
        if getattr(before, field) != getattr(after, field):
            raise UsageError(
                f"the transform changed metadata.{field}: return it unchanged, the cache identifies objects by it"
            )
    return changed, after
