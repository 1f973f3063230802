"""The labels and annotations that mark the objects of a set. Pure.

Upstream: github.com/rancher/wrangler/pkg/apply (desiredset_apply.go, desiredset_compare.go);
k8s.io/enhancements/keps/sig-cli/3659-kubectl-apply-prune (ApplySet)
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import zlib
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from opsdk.apimachinery.gvk import GroupKind, GroupVersionKind, ObjectKey
from opsdk.apimachinery.object import KubeObject, gvk_of, key_of
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JSON_ERRORS, JsonObject, JsonValue

PREFIX: Final = "objectset.rio.cattle.io/"
ID: Final = f"{PREFIX}id"
OWNER_GVK: Final = f"{PREFIX}owner-gvk"
OWNER_NAME: Final = f"{PREFIX}owner-name"
OWNER_NAMESPACE: Final = f"{PREFIX}owner-namespace"
HASH: Final = f"{PREFIX}hash"
APPLIED: Final = f"{PREFIX}applied"
PRUNE: Final = f"{PREFIX}prune"

APPLY_SET_ID: Final = "applyset.kubernetes.io/id"
APPLY_SET_PART_OF: Final = "applyset.kubernetes.io/part-of"
APPLY_SET_TOOLING: Final = "applyset.kubernetes.io/tooling"
APPLY_SET_KINDS: Final = "applyset.kubernetes.io/contains-group-kinds"
APPLY_SET_NAMESPACES: Final = "applyset.kubernetes.io/additional-namespaces"

_MAX_STRING_LENGTH: Final = 64
"""Longer strings are truncated in the ``applied`` annotation, as in wrangler: a merge needs only the fields."""
_MAX_DECODED_BYTES: Final = 10 << 20
"""Bytes of an uncompressed annotation. etcd's limit for an object is 1.5 MB."""
_LIST_KEYS: Final = frozenset(
    {"apiVersion", "containerPort", "devicePath", "ip", "kind", "mountPath", "name", "port", "topologyKey", "type"}
)


class SetOwner(msgspec.Struct, frozen=True):
    """The owner of a set by kind and key: an object that need not exist, or is in another cluster.

    Attributes:
        gvk: its kind. The version is part of the set's identity.
        key: its namespace and name.
    """

    gvk: GroupVersionKind
    key: ObjectKey

    @classmethod
    def of(cls, owner: KubeObject) -> SetOwner:
        """Return the reference to an object as the owner."""
        return cls(gvk_of(owner), key_of(owner))

    @classmethod
    def read(cls, annotations: Mapping[str, str]) -> SetOwner | None:
        """Return the owner that the annotations of an object name; None if they are missing or malformed."""
        api_version, separator, kind = annotations.get(OWNER_GVK, "").partition(", Kind=")
        name = annotations.get(OWNER_NAME, "")
        group, slash, version = api_version.rpartition("/")
        if not (separator and slash and version and kind and name):
            return None
        return cls(GroupVersionKind(group, version, kind), ObjectKey(annotations.get(OWNER_NAMESPACE, ""), name))

    @property
    def apply_set_id(self) -> str:
        """The ApplySet ID of the owner as a parent.

        >>> SetOwner(GroupVersionKind("", "v1", "Secret"), ObjectKey("default", "web")).apply_set_id[:9]
        'applyset-'
        """
        identity = f"{self.key.name}.{self.key.namespace}.{self.gvk.kind}.{self.gvk.group}"
        digest = base64.urlsafe_b64encode(hashlib.sha256(identity.encode()).digest()).decode().rstrip("=")
        return f"applyset-{digest}-v1"


class SetIdentity(msgspec.Struct, frozen=True):
    """The identity of a set.

    Attributes:
        set_id: of the set.
        owner: of the set, or None.
    """

    set_id: str
    owner: SetOwner | None = None

    def __post_init__(self) -> None:
        if not self.set_id and self.owner is None:
            raise UsageError("an object set needs a set_id or an owner")

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of each object of the set."""
        if self.owner is None:
            return {ID: self.set_id}
        gvk, key = self.owner.gvk, self.owner.key
        return {
            ID: self.set_id,
            OWNER_GVK: f"{gvk.group}/{gvk.version}, Kind={gvk.kind}",
            OWNER_NAME: key.name,
            OWNER_NAMESPACE: key.namespace,
        }

    @property
    def hash(self) -> str:
        """The value of the label `HASH`, which selects the objects of the set."""
        annotations = self.annotations
        parts = (annotations.get(name, "") for name in (ID, OWNER_GVK, OWNER_NAME, OWNER_NAMESPACE))
        return hashlib.sha1("".join(parts).encode(), usedforsecurity=False).hexdigest()

    def marks(self, obj: KubeObject) -> bool:
        """Whether the label and the annotations of `obj` are those of this set."""
        meta = obj.metadata
        same = all(meta.annotations.get(name, "") == value for name, value in self.annotations.items())
        return same and meta.labels.get(HASH) == self.hash

    def is_set_of(self, obj: KubeObject) -> bool:
        """Whether `obj` belongs to this set, also if the annotations have another version of the owner's kind."""
        annotations = obj.metadata.annotations
        owner = SetOwner.read(annotations)
        same_id = annotations.get(ID, "") == self.set_id
        if owner is None or self.owner is None:
            return same_id and owner is self.owner
        return same_id and (owner.gvk.group_kind, owner.key) == (self.owner.gvk.group_kind, self.owner.key)

    def __str__(self) -> str:
        owner = f" of {self.owner.gvk.kind} {self.owner.key}" if self.owner is not None else ""
        return f"{self.set_id or '(no id)'}{owner}"


def encode_applied(tree: JsonObject) -> str:
    """Return the value of the annotation `APPLIED` for an applied object."""
    content = msgspec.json.encode(applied_form(tree), order="deterministic")
    return base64.b64encode(gzip.compress(content, mtime=0)).decode().rstrip("=")


def decode_applied(text: str) -> JsonObject | None:
    """Return the applied object of an annotation, or None without the annotation or if it does not decode."""
    try:
        content = text.encode() if text.startswith("{") else _unzip(base64.b64decode(text + "=" * (-len(text) % 4)))
        return msgspec.json.decode(content, type=dict)
    except (*JSON_ERRORS, zlib.error):
        return None


def _unzip(data: bytes) -> bytes:
    return zlib.decompressobj(wbits=31).decompress(data, _MAX_DECODED_BYTES)


def applied_form(tree: JsonObject) -> JsonObject:
    """Return the object for the annotation: without the annotation itself, and with long strings truncated."""
    annotations = {name: value for name, value in _annotations_of(tree).items() if name != APPLIED}
    metadata = {**tree.get("metadata", {}), "annotations": annotations}
    rest = {name: value for name, value in tree.items() if name != "status"}
    shortened: JsonObject = _shortened({**rest, "metadata": metadata}, in_list=False)
    return shortened


def _annotations_of(tree: JsonObject) -> Mapping[str, str]:
    annotations: Mapping[str, str] = tree.get("metadata", {}).get("annotations") or {}
    return annotations


def _shortened(value: JsonValue, *, in_list: bool, name: str = "") -> JsonValue:
    if isinstance(value, dict):
        return {key: _shortened(item, in_list=in_list, name=key) for key, item in value.items()}
    if isinstance(value, list):
        # Items of scalar type are items of sets, so they are not truncated.
        return [_shortened(item, in_list=True) if isinstance(item, dict | list) else item for item in value]
    is_key = in_list and name in _LIST_KEYS
    return value[:_MAX_STRING_LENGTH] if isinstance(value, str) and not is_key else value


def format_group_kinds(kinds: Iterable[GroupKind]) -> str:
    """Return the value of `APPLY_SET_KINDS`.

    >>> format_group_kinds([GroupKind("apps", "Deployment"), GroupKind("", "ConfigMap")])
    'ConfigMap,Deployment.apps'
    """
    return ",".join(sorted(f"{kind.kind}.{kind.group}".rstrip(".") for kind in kinds))


def parse_group_kinds(text: str) -> list[GroupKind]:
    """Return the kinds of an annotation `APPLY_SET_KINDS`. Empty items are left out."""
    pairs = [item.strip().partition(".") for item in text.split(",")]
    return [GroupKind(group, kind) for kind, _, group in pairs if kind]
