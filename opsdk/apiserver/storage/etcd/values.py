"""Encodes objects for etcd and decodes them. Pure.

The bytes are the object's JSON without ``resourceVersion``, which is the key's revision. A nonce of 64 random bits
follows as white space, which JSON ignores. It identifies a write whose response was lost, since another writer may
have written an equal object.

Upstream: k8s.io/apiserver/pkg/storage/api_object_versioner.go (v1.36).
"""

from __future__ import annotations

import random
from typing import Any

import msgspec

from opsdk.apiserver.storage.etcd.errors import EtcdError, EtcdFailure
from opsdk.apiserver.storage.objects import with_revision
from opsdk.structured_merge.value import JsonObject

_DECODER = msgspec.json.Decoder(dict[str, Any])
_WHITE = bytes.maketrans(b"0123", b" \t\n\r")
_NONCE = 32
"""Characters of white space; each holds two bits."""


class StoredObject(msgspec.Struct, frozen=True):
    """A key's state: the object, its bytes, and the revision of its last write."""

    value: JsonObject
    data: bytes
    revision: int


def encode(value: JsonObject, rng: random.Random) -> bytes:
    r"""Return the bytes of `value` with a new nonce.

    >>> data = encode({"metadata": {"name": "a", "resourceVersion": "7"}}, random.Random(1))
    >>> data.rstrip(b" \t\r\n"), len(data)
    (b'{"metadata":{"name":"a"}}', 57)
    """
    meta = value.get("metadata") or {}
    if "resourceVersion" in meta:
        value = {**value, "metadata": {key: part for key, part in meta.items() if key != "resourceVersion"}}
    bits = rng.getrandbits(2 * _NONCE)
    nonce = bytes(48 + (bits >> shift & 3) for shift in range(0, 2 * _NONCE, 2)).translate(_WHITE)
    return msgspec.json.encode(value) + nonce


def decode(key_value: Any) -> StoredObject:
    """Decode a ``KeyValue``. Raises `EtcdError` if it is not a JSON object."""
    data: bytes = key_value.value
    revision: int = key_value.mod_revision
    try:
        value = _DECODER.decode(data)
    except msgspec.MsgspecError as error:
        name = key_value.key.decode(errors="replace")
        text = (
            f"the key {name} holds no JSON object ({error}); another program wrote it: remove it, or use another prefix"
        )
        raise EtcdError(EtcdFailure.OTHER, text) from error
    return StoredObject(with_revision(value, revision), data, revision)


def range_end(prefix: bytes) -> bytes:
    """Return the first key after all keys with the prefix `prefix`, which ends with a slash.

    >>> range_end(b"/registry/core/pods/")
    b'/registry/core/pods0'
    """
    return prefix[:-1] + bytes((prefix[-1] + 1,))
