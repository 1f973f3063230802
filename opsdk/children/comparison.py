"""Compares a live object with a desired one, as a server-side apply does: values and owners of fields. Pure.

The comparison follows the server's apply. The fields that the desired object sets are compared with those
that the field manager owns, and each desired value, in the form that the server writes, with the live one.

Upstream: sigs.k8s.io/structured-merge-diff/v6/merge/update.go (Updater.Apply)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final

import msgspec

from opsdk.base.traceparent import TRACEPARENT_ANNOTATION
from opsdk.children.defaults import KEPT_IF_EMPTY, fill_defaults
from opsdk.children.field_types import FieldType, Form
from opsdk.children.ownership import APPLY, OwnerEntry, applied_by, managers_of, owns
from opsdk.children.written_form import is_zero, written_form
from opsdk.errors import PatchError
from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.fieldpath import EMPTY, FieldSet, Path
from opsdk.structured_merge.schema import Topology
from opsdk.structured_merge.typed import ABSENT, list_element, topology_for
from opsdk.structured_merge.value import JsonObject, JsonValue

TRACE_CONTEXT: Final = FieldSet.of(("f:metadata", "f:annotations", f"f:{TRACEPARENT_ANNOTATION}"))
"""The field of a trace context. An apply owns it, and the comparison ignores that."""


class DifferenceKind(Enum):
    """The change that an apply would make at a field."""

    VALUE = "value"
    """The live value differs from the desired one, or is missing."""
    ORDER = "order"
    """The items of a keyed list or a set have another order."""
    NOT_OWNED = "not owned"
    """The value is as desired, but the field manager does not own the field."""
    OWNED_BEFORE = "owned before"
    """The field manager owns the field, and the desired object does not set it."""
    SHARED = "shared"
    """Another manager also owns the field, with another spelling of the same value: the apply takes it over."""
    VERSION = "version"
    """The earlier apply used another API version."""


class ApplyDifference(msgspec.Struct, frozen=True):
    """A field that an apply would change. `live` and `desired` may be `ABSENT`."""

    kind: DifferenceKind
    path: Path
    live: JsonValue = ABSENT
    desired: JsonValue = ABSENT


class ApplyComparison(msgspec.Struct, frozen=True):
    """The result of `compare`.

    Attributes:
        differences: what an apply would change; empty if nothing.
        managers: the entries of the live object's ``managedFields``.
        own: the entry of the field manager's earlier applies, or None.
        owners_known: whether the live object has ``managedFields``. If a cache strips them, only values are compared.
    """

    differences: tuple[ApplyDifference, ...]
    managers: list[OwnerEntry]
    own: OwnerEntry | None
    owners_known: bool


def compare(
    live: Mapping[str, JsonValue],
    desired: JsonObject,
    field_type: FieldType,
    *,
    to_own: FieldSet,
    field_owner: str,
    ignored: FieldSet = EMPTY,
) -> ApplyComparison:
    """Compare a live object with a desired one.

    Args:
        live: as the server returned it.
        desired: the configuration to apply.
        field_type: the type of both.
        to_own: the fields that the apply would own, see `fields_to_own`.
        field_owner: the field manager of the apply.
        ignored: top-level fields that the apply cannot change.
    """
    managers = managers_of(live)
    own = applied_by(managers, field_owner)
    values = _Values()
    values.compare_fields(live, _server_view(desired, live), field_type, ())
    differences = [d for d in values.differences if d.path[0] not in ignored.members]
    known = bool(managers) or not to_own
    if known:
        owned = own.fields if own else EMPTY
        differences += _ownership(owned, to_own, differences)
        differences += _co_owned_differences(values.respelled, managers, field_owner)
        if own is not None and own.api_version != desired.get("apiVersion"):
            differences.append(ApplyDifference(DifferenceKind.VERSION, (), own.api_version, desired.get("apiVersion")))
    return ApplyComparison(tuple(differences), managers, own, known)


def _server_view(desired: JsonObject, live: Mapping[str, JsonValue]) -> JsonObject:
    """Return the object with the fields that the server adds on every write of its kind."""
    if (desired.get("apiVersion"), desired.get("kind")) == ("v1", "Pod"):
        return _with_default_tolerations(desired, live)
    return desired


_DEFAULT_TOLERATIONS: Final = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]


def _with_default_tolerations(pod: JsonObject, live: Mapping[str, JsonValue]) -> JsonObject:
    """Add the tolerations of the admission plugin DefaultTolerationSeconds, if the live pod has them."""
    spec = pod.get("spec") or {}
    tolerations = spec.get("tolerations")
    existing = (live.get("spec") or {}).get("tolerations")
    if not tolerations or not existing:
        return pod
    appended = existing[len(tolerations) :]
    if not appended or any(item not in _DEFAULT_TOLERATIONS for item in appended):
        return pod
    return {**pod, "spec": {**spec, "tolerations": [*tolerations, *appended]}}


def _ownership(owned: FieldSet, to_own: FieldSet, differences: list[ApplyDifference]) -> list[ApplyDifference]:
    if owned == to_own:
        return []
    owned = owned.difference(TRACE_CONTEXT)  # it belongs to one write: leaving it out again is not a change
    if owned == to_own:
        return []
    values = {difference.path for difference in differences}
    added = [path for path in _top_level_paths(to_own.difference(owned)) if not _is_covered(path, values)]
    removed = list(owned.difference(to_own).leaves())
    return [
        *(ApplyDifference(DifferenceKind.NOT_OWNED, path) for path in added),
        *(ApplyDifference(DifferenceKind.OWNED_BEFORE, path) for path in removed),
    ]


def _top_level_paths(fields: FieldSet, above: Path = ()) -> Iterator[Path]:
    """Iterate over the paths of the set that have no ancestor in it."""
    for element in fields.elements():
        if element in fields.members:
            yield (*above, element)
        else:
            yield from _top_level_paths(fields.with_prefix(element), (*above, element))


def _is_covered(path: Path, values: set[Path]) -> bool:
    return any(path[: len(value)] == value or value[: len(path)] == path for value in values)


def _co_owned_differences(respelled: list[Path], managers: list[OwnerEntry], field_owner: str) -> list[ApplyDifference]:
    others = [m.fields for m in managers if not (m.name == field_owner and m.operation == APPLY and not m.subresource)]
    return [
        ApplyDifference(DifferenceKind.SHARED, path)
        for path in respelled
        if any(owns(fields, path) for fields in others)
    ]


_SCALAR_TYPES: Final = frozenset({str, int, bool})
_OBJECTS: Final = frozenset({Topology.STRUCT, Topology.MAP})
_ITEMS: Final = frozenset({Topology.LIST_SET, Topology.LIST_MAP})


class _Values(msgspec.Struct):
    """Compares desired and live values recursively."""

    differences: list[ApplyDifference] = msgspec.field(default_factory=list)
    respelled: list[Path] = msgspec.field(default_factory=list)
    """Fields whose live text differs from the desired one, with the same meaning."""

    def compare_fields(
        self, live: Mapping[str, JsonValue], desired: Mapping[str, JsonValue], field_type: FieldType, path: Path
    ) -> None:
        top = not path
        for name, value in desired.items():
            existing = live.get(name, ABSENT)
            if value == existing and type(value) in _SCALAR_TYPES and type(existing) is type(value):
                continue
            if top and name in ("apiVersion", "kind"):
                continue
            part = field_type.field(name)
            if path == ("f:metadata",) and name in _IDENTITY_METADATA:
                continue
            below = (*path, f"f:{name}")
            if not self._compare_nested(existing, value, part, below):
                self._compare_leaf(existing, value, part, below, parent=(live, field_type, name))

    def _compare_nested(self, live: JsonValue, desired: JsonValue, field_type: FieldType, path: Path) -> bool:
        """Compare the parts of a granular value; return False if the value is replaced as a whole."""
        topology = topology_for(field_type.schema, live if desired is None else desired)
        if topology in _OBJECTS:
            if not (isinstance(live, dict) and live and (desired is None or isinstance(desired, dict))):
                return False
            # Null and {} keep the live value.
            self.compare_fields(live, desired or {}, field_type, path)
            return True
        if topology in _ITEMS and isinstance(live, list) and live and (desired is None or isinstance(desired, list)):
            self._compare_items(live, desired or [], field_type, path)
            return True
        return False

    def _compare_items(
        self, live: list[JsonValue], desired: list[JsonValue], field_type: FieldType, path: Path
    ) -> None:
        """Compare the items of a keyed list or a set: their order, missing ones, and changed ones."""
        if deep_equal(live, desired):
            return
        schema, item_type = field_type.schema, field_type.item()
        try:
            live_elements = [list_element(item, schema) for item in live]
            elements = [list_element(item, schema) for item in desired]
        except PatchError:
            self.differences.append(ApplyDifference(DifferenceKind.VALUE, path, live, desired))
            return
        items = dict(zip(live_elements, live, strict=True))
        ambiguous = len(items) < len(live_elements)
        applied = set(elements)
        order = [element for element in live_elements if element in applied]
        if order != elements and not ambiguous and applied <= items.keys():
            self.differences.append(ApplyDifference(DifferenceKind.ORDER, path, order, elements))
        for element, item in zip(elements, desired, strict=True):
            below = (*path, element)
            if items.get(element) == item and deep_equal(items[element], item) and not ambiguous:
                continue  # most items of long lists
            if element not in items or (ambiguous and live_elements.count(element) > 1):
                self.differences.append(ApplyDifference(DifferenceKind.VALUE, below, items.get(element, ABSENT), item))
            elif not self._compare_nested(items[element], item, item_type, below):
                self._compare_leaf(items[element], item, item_type, below)

    def _compare_leaf(
        self,
        live: JsonValue,
        desired: JsonValue,
        field_type: FieldType,
        path: Path,
        parent: tuple[Mapping[str, JsonValue], FieldType, str] | None = None,
    ) -> None:
        """Compare a value as the server would write it: defaults and other spellings are not differences."""
        if live is not ABSENT and deep_equal(live, desired):
            return
        written = written_form(desired, field_type)
        if written is ABSENT:
            same = live is ABSENT
        else:
            same = live is not ABSENT and (deep_equal(written, live) or _same_bytes(written, live, field_type))
        if not same and parent is not None and (written is ABSENT or is_zero(written, field_type)):
            same = _is_default(live, *parent)
        if same:
            self.respelled.append(path)
        else:
            self.differences.append(ApplyDifference(DifferenceKind.VALUE, path, live, desired))


_IDENTITY_METADATA: Final = frozenset(
    {"name", "namespace", "uid", "resourceVersion", "creationTimestamp", "generation", "selfLink"}
)


def _is_default(live: JsonValue, parent: Mapping[str, JsonValue], parent_type: FieldType, name: str) -> bool:
    """Whether `live` is the value that the server sets as a default, or keeps, for an omitted field."""
    if parent_type.custom:
        return False
    if live is not ABSENT and name in KEPT_IF_EMPTY.get(parent_type.name, ()):
        return True
    rest = {key: value for key, value in parent.items() if key != name}
    fill_defaults(parent_type.name, rest)
    return name in rest and deep_equal(rest[name], live)


def _same_bytes(written: JsonValue, live: JsonValue, field_type: FieldType) -> bool:
    return field_type.form is Form.BYTES and written == written_form(live, field_type)
