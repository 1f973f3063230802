"""Finds the type of a desired object: the built-in table, CustomResourceDefinitions, or the object's class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.object import TypedObject
from opsdk.apimachinery.scheme import Scheme
from opsdk.children.field_types import FieldType, built_in_type, class_type, custom_type
from opsdk.children.kinds import built_in_kind
from opsdk.children.ownership import STATUS
from opsdk.errors import SchemeError, UsageError
from opsdk.structured_merge.fieldpath import EMPTY, FieldSet
from opsdk.structured_merge.value import JsonObject, JsonValue


class ResolvedType(msgspec.Struct, frozen=True):
    """A kind's type.

    Attributes:
        field_type: the type of its objects.
        namespaced: whether objects have a namespace.
        has_status: whether the status is a subresource.
        ignored: the fields that an apply of the object cannot change.
        authoritative: whether the server has this type. A class may declare less than the CustomResourceDefinition.
    """

    field_type: FieldType
    namespaced: bool
    has_status: bool
    ignored: FieldSet
    authoritative: bool = True


_REQUEST: Final = FieldSet.of(("f:spec",), ("f:status",))
"""Nothing but the metadata of a CertificateSigningRequest has owners."""


def _resolved(
    gvk: GroupVersionKind, field_type: FieldType, *, namespaced: bool, has_status: bool, authoritative: bool = True
) -> ResolvedType:
    signing_request = gvk.group_kind == ("certificates.k8s.io", "CertificateSigningRequest")
    ignored = _REQUEST if signing_request else STATUS if has_status else EMPTY
    return ResolvedType(field_type, namespaced, has_status, ignored, authoritative)


class TypeResolver:
    """Resolves kinds to types, and remembers the results.

    Args:
        scheme: has the classes of kinds for unstructured objects.
        crds: CustomResourceDefinitions as JSON trees. They win over classes.
    """

    def __init__(self, scheme: Scheme | None = None, crds: Sequence[Mapping[str, JsonValue]] = ()) -> None:
        self._scheme = scheme
        self._types: dict[tuple[GroupVersionKind, type[Any]], ResolvedType | None] = {}
        self._custom = {gvk: resolved for crd in crds for gvk, resolved in _versions(crd)}

    def resolve(self, gvk: GroupVersionKind, kind: type[Any]) -> ResolvedType | None:
        """Return the type of `gvk`, whose objects are of class `kind`; None if nothing is known."""
        try:
            return self._types[gvk, kind]
        except KeyError:
            resolved = self._types[gvk, kind] = self._find(gvk, kind)
            return resolved

    def _find(self, gvk: GroupVersionKind, kind: type[Any]) -> ResolvedType | None:
        """Return the type of a kind: built in, of its CustomResourceDefinition, or of its class. None if unknown."""
        field_type, built_in = built_in_type(gvk), built_in_kind(gvk)
        if field_type is not None and built_in is not None:
            return _resolved(gvk, field_type, namespaced=built_in.namespaced, has_status=built_in.has_status)
        if gvk in self._custom:
            return self._custom[gvk]
        if not issubclass(kind, TypedObject) and self._scheme is not None:
            try:
                kind = self._scheme.type_for(gvk)
            except SchemeError:
                return None
        if not issubclass(kind, TypedObject):
            return None
        try:
            field_type = class_type(kind)
        except UsageError:
            return None  # the class has no structural schema, so its CRD was not generated from it
        namespaced = bool(getattr(kind, "namespaced", True))
        has_status = field_type.declares("status")
        return _resolved(gvk, field_type, namespaced=namespaced, has_status=has_status, authoritative=False)


def _versions(crd: Mapping[str, JsonValue]) -> list[tuple[GroupVersionKind, ResolvedType]]:
    spec: JsonObject = crd["spec"]
    kinds = []
    for version in spec["versions"]:
        gvk = GroupVersionKind(spec["group"], version["name"], spec["names"]["kind"])
        has_status = "status" in (version.get("subresources") or {})
        field_type = custom_type(version["schema"]["openAPIV3Schema"])
        namespaced = spec["scope"] == "Namespaced"
        kinds.append((gvk, _resolved(gvk, field_type, namespaced=namespaced, has_status=has_status)))
    return kinds
