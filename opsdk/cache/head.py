"""The part of an object that the cache needs of every object: its kind, and the metadata that its entry keeps.

Annotations, timestamps and managedFields stay undecoded: they are two thirds of the time that all metadata take.
"""

from __future__ import annotations

import msgspec

from opsdk.apimachinery.codec import decode_partial
from opsdk.structured_merge.value import JSON_ERRORS


class OwnerHead(msgspec.Struct, rename="camel", gc=False):
    """An owner reference."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None


class HeadMeta(msgspec.Struct, rename="camel", gc=False):
    """Metadata of an object. `deletion_timestamp` is not parsed."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    deletion_timestamp: object = None
    labels: dict[str, str] | None = None
    finalizers: list[str] | None = None
    owner_references: list[OwnerHead] | None = None


class ObjectHead(msgspec.Struct, rename="camel", gc=False):
    """Kind, as it is sent, and metadata of an object."""

    api_version: str = ""
    kind: str = ""
    metadata: HeadMeta = msgspec.field(default_factory=HeadMeta)


_DECODER = msgspec.json.Decoder(ObjectHead)


def try_decode_head(data: bytes) -> ObjectHead | None:
    """Decode kind and metadata of an object in JSON; None if `decode_head` has to: for a null, or for an error."""
    try:
        return _DECODER.decode(data)
    except JSON_ERRORS:
        return None


def decode_head(data: bytes) -> ObjectHead:
    """Decode kind and metadata of an object in JSON. Raises `DecodeError`.

    >>> decode_head(b'{"kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}}}').metadata.labels
    {'app': 'web'}
    """
    try:
        return _DECODER.decode(data)
    except JSON_ERRORS:
        # A null in place of a string, or not an object: `decode_partial` handles both.
        partial = decode_partial(data)
    meta = partial.metadata
    owners = [OwnerHead(o.api_version, o.kind, o.name, o.uid, o.controller) for o in meta.owner_references]
    return ObjectHead(
        partial.api_version,
        partial.kind,
        HeadMeta(
            name=meta.name,
            namespace=meta.namespace,
            uid=meta.uid,
            resource_version=meta.resource_version,
            generation=meta.generation,
            deletion_timestamp=meta.deletion_timestamp,
            labels=meta.labels,
            finalizers=meta.finalizers,
            owner_references=owners,
        ),
    )
