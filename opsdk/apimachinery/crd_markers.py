"""Declarations of a CustomResourceDefinition that types cannot express: rules, list types, columns, scale.

The markers are ``msgspec.Meta`` objects, so ``Annotated`` accepts them next to other ``Meta`` objects. The names are
those of controller-gen's markers, in Python's case.

Upstream: sigs.k8s.io/controller-tools/pkg/crd/markers
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

RULES = "x-kubernetes-validations"
LIST_TYPE = "x-kubernetes-list-type"
LIST_KEYS = "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"
EMBEDDED = "x-kubernetes-embedded-resource"
PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"

Reason = Literal["FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"]


class PrinterColumn(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A column of ``kubectl get`` (``additionalPrinterColumns``).

    Attributes:
        name: the column's header.
        json_path: the path of the value, such as ``.status.phase``.
        type: string, integer, number, boolean or date.
        description: shown by ``kubectl explain`` tools.
        priority: 0 is always shown; greater values only with ``-o wide``.
        format: a hint for clients, such as ``int32`` or ``date-time``.
    """

    name: str
    json_path: str = msgspec.field(name="jsonPath")
    type: str = "string"
    description: str = ""
    priority: int = 0
    format: str = ""


class Scale(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The scale subresource, which ``kubectl scale`` and the HorizontalPodAutoscaler use.

    Attributes:
        spec_replicas_path: the path of the desired replicas, below ``.spec``.
        status_replicas_path: the path of the actual replicas, below ``.status``.
        label_selector_path: the path of the selector as a string, below ``.status`` or ``.spec``; empty means none.
    """

    spec_replicas_path: str = msgspec.field(default=".spec.replicas", name="specReplicasPath")
    status_replicas_path: str = msgspec.field(default=".status.replicas", name="statusReplicasPath")
    label_selector_path: str = ""


class Rule(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A validation rule in CEL (``x-kubernetes-validations``). The server evaluates it; the class does not.

    >>> Rule("self.low <= self.high", message="low exceeds high", field_path=".low").keywords()
    {'rule': 'self.low <= self.high', 'message': 'low exceeds high', 'fieldPath': '.low'}

    Attributes:
        rule: an expression that is true for valid values. ``oldSelf`` makes it a rule for updates.
        message: the error message; the server's default is ``failed rule: ...``.
        message_expression: an expression that returns the message.
        reason: the reason of the error in the response; the server's default is FieldValueInvalid.
        field_path: the path of the field that the error names, relative to the value, such as ``.low``.
        optional_old_self: evaluate a rule with ``oldSelf`` on create too; ``oldSelf`` is an optional then.
    """

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: Reason | None = None
    field_path: str = ""
    optional_old_self: bool | None = None

    def keywords(self) -> dict[str, Any]:
        """Return the rule in its schema form."""
        keywords: dict[str, Any] = msgspec.to_builtins(self)
        return keywords


def validations(*rules: Rule) -> msgspec.Meta:
    """Return a marker with CEL rules for one field. A class declares its rules as ``rules = (Rule(...),)``.

    >>> from typing import Annotated
    >>> Port = Annotated[int, validations(Rule("self != 22", message="22 is reserved"))]
    """
    return json_schema({RULES: [rule.keywords() for rule in rules]})


def list_type(kind: Literal["atomic", "set", "map"], *, keys: tuple[str, ...] = ()) -> msgspec.Meta:
    """Return a marker that selects how server-side apply merges a list.

    Args:
        kind: ``atomic`` lists have one owner, elements of a ``set`` are unique, elements of a ``map`` have keys.
        keys: JSON names of the fields that identify an element of a ``map``.

    >>> from typing import Annotated
    >>> Ports = Annotated[list[dict[str, str]], list_type("map", keys=("name",))]
    """
    return json_schema({LIST_TYPE: kind, **({LIST_KEYS: list(keys)} if keys else {})})


def map_type(kind: Literal["granular", "atomic"]) -> msgspec.Meta:
    """Return a marker for an object or a dict: each entry has an owner (``granular``), or all have one (``atomic``).

    >>> map_type("atomic").extra_json_schema
    {'x-kubernetes-map-type': 'atomic'}
    """
    return json_schema({MAP_TYPE: kind})


def nullable() -> msgspec.Meta:
    """Return a marker that keeps null for a field whose default is None.

    ``T | None`` without a default, or with another default than None, is nullable without this marker.

    >>> nullable().extra_json_schema
    {'nullable': True}
    """
    return json_schema({"nullable": True})


def embedded_resource() -> msgspec.Meta:
    """Return a marker for a whole object of any kind in a ``JsonObject`` field.

    >>> embedded_resource().extra_json_schema
    {'x-kubernetes-embedded-resource': True}
    """
    return json_schema({EMBEDDED: True})


def preserve_unknown_fields() -> msgspec.Meta:
    """Return a marker for a class: the server keeps fields that the class does not have.

    >>> preserve_unknown_fields().extra_json_schema
    {'x-kubernetes-preserve-unknown-fields': True}
    """
    return json_schema({PRESERVE: True})


def json_schema(keywords: dict[str, Any]) -> msgspec.Meta:
    """Return a marker with keywords of the schema. The value None removes a keyword.

    >>> json_schema({"format": "int32"}).extra_json_schema
    {'format': 'int32'}
    """
    return msgspec.Meta(extra_json_schema=keywords)
