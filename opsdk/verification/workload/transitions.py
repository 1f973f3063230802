"""Generates the operations of a workload: from a definition's schema and the examples of the author. Pure.

Fields take turns, in an order that the seed chooses: no field is changed twice before each is changed once. Harmless
values stay, so operations build on each other; after a value at the edge or a misoperation, the state before is
written again. Equal arguments give equal bytes in any process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

from opsdk.apiserver.structural.node import SchemaNode
from opsdk.base.options import Options
from opsdk.base.shortened import listed
from opsdk.errors import UsageError
from opsdk.structured_merge.paths import FieldPath, get_path
from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.verification.workload.definition import Admits, DefinitionVersion
from opsdk.verification.workload.dependent_fields import made_valid, repaired
from opsdk.verification.workload.edits import value_at, with_value
from opsdk.verification.workload.errors import NoCustomResourceError
from opsdk.verification.workload.field_values import FieldValues, as_uncertain
from opsdk.verification.workload.operations import (
    ChangedField,
    GeneratedWorkload,
    Operation,
    OperationKind,
    ReferencedObject,
    UnchangedField,
)
from opsdk.verification.workload.schema_fields import SchemaBudget, SchemaField
from opsdk.verification.workload.shape_values import volume_size
from opsdk.verification.workload.shapes import Shape, is_volume, referenced_kind
from opsdk.verification.workload.values import ABSENT, FieldValue, ValueClass, valid

_METADATA: Final = SchemaNode(
    {
        "type": "object",
        "properties": {
            name: {"type": "object", "additionalProperties": {"type": "string"}} for name in ("labels", "annotations")
        },
    }
)
_TURNS: Final = (ValueClass.VALID, ValueClass.MISOPERATION, ValueClass.BOUNDARY, ValueClass.BEYOND)
"""The class that a field prefers in its first, second, third and fourth turn, and so on."""
_NAMED: Final = 20
"""Paths that a sentence about a budget names."""


class WorkloadOptions(Options, frozen=True, kw_only=True):
    """How many operations are generated, and from how much of the schema.

    Attributes:
        seed: chooses the order of the fields.
        operations: the most operations; the workload ends before if all values are used.
        fields: the most fields that are changed, those of upper levels first.
        schema: how much of the schema is read.
    """

    seed: int = 0
    operations: int = 1000
    fields: int = 5000
    schema: SchemaBudget = SchemaBudget()


def generate_workload(
    definition: Mapping[str, JsonValue],
    *,
    version: str = "",
    examples: Sequence[JsonObject] = (),
    options: WorkloadOptions = WorkloadOptions(),  # noqa: B008 - frozen
    admits: Admits | None = None,
) -> GeneratedWorkload:
    """Return the operations on a custom resource of a definition.

    Args:
        definition: the CustomResourceDefinition as the server returns it.
        version: its name; the stored version without one.
        examples: custom resources of the author. The first one is created; without any, a small valid one is.
        options: budgets and seed.
        admits: returns the errors of the server; by default those of the schema and its rules.

    Raises:
        NoCustomResourceError: the schema admits no custom resource, or refuses an example.
        UsageError: the version does not exist or has no schema.

    >>> definition = {"spec": {"group": "example.com", "names": {"kind": "Site"}, "versions": [{
    ...     "name": "v1", "storage": True, "schema": {"openAPIV3Schema": {"type": "object", "properties": {
    ...         "spec": {"type": "object", "properties": {"replicas": {"type": "integer", "minimum": 0}}}}}}}]}}
    >>> for operation in generate_workload(definition, options=WorkloadOptions(operations=8)).operations[5:]:
    ...     print(operation)
    Update spec.replicas: 1 -> 2 (Valid: scale to 2)
    Update spec: {"replicas":2} -> absent (Boundary: not set)
    Rollback spec: absent -> {"replicas":2} (Valid: back to the state before)
    """
    compiled = DefinitionVersion(definition, version, options.schema)
    return _Generator(compiled, examples, options, admits or compiled.errors).generate()


class _Turns:
    """The turns of one field: which of its values were used, and why the others were not."""

    def __init__(self, field: SchemaField) -> None:
        self.field = field
        self.used: set[str] = set()
        self.count = 0
        self.changed = False
        self.visited = False
        self.refusal = ""

    def refuse(self, value: FieldValue, reason: str) -> None:
        """Note that the server refuses a value, or admits one that is beyond the schema: it is not tried again."""
        self.used.add(value.reason)
        self.refusal = reason or self.refusal

    def ordered(self, values: Sequence[FieldValue]) -> list[FieldValue]:
        """Return the unused values; those of the class that is due come first."""
        first = self.count % len(_TURNS)
        order = (*_TURNS[first:], *_TURNS[:first])
        unused = [one for one in values if one.reason not in self.used]
        return sorted(unused, key=lambda one: order.index(one.value_class))


class _Generator:
    """Generates one workload; `_state` is the custom resource that the server has after the operations so far."""

    def __init__(
        self, definition: DefinitionVersion, examples: Sequence[JsonObject], options: WorkloadOptions, admits: Admits
    ) -> None:
        self._definition = definition
        self._examples = examples
        self._options = options
        self._admits = admits
        self._values = FieldValues(examples)
        walked = islice(definition.root.walk(), options.fields)
        self._volumes = [field for field in walked if is_volume(field)]
        self._operations: list[Operation] = []
        self._starts: list[JsonObject] = []
        self._state: JsonObject = {}

    def generate(self) -> GeneratedWorkload:
        """Return the workload."""
        self._begin()
        turns = [_Turns(field) for field in self._fields()]
        complete = False
        for number in range(self._options.operations):
            before = len(self._operations)
            for one in self._shuffled(turns, number):
                if self._is_full:
                    break
                self._take_turn(one)
            complete = len(self._operations) == before
            if complete or self._is_full:
                break
        return GeneratedWorkload(
            operations=tuple(self._operations[: self._options.operations]),
            unchanged=tuple(self._unchanged(turns)),
            references=tuple(self._references(turns)),
            cut=tuple(self._cut(turns)),
            complete=complete,
        )

    @property
    def _is_full(self) -> bool:
        return len(self._operations) >= self._options.operations

    # -------------------------------------------------------------- the beginning
    def _begin(self) -> None:
        """Create the first custom resource, replace it by each other example, and create it again."""
        for number, example in enumerate(self._examples, 1):
            self._starts.append(self._example(number, example))
        if not self._starts:
            self._starts.append(self._small())
        reason = "the first example" if self._examples else "a small custom resource"
        self._add(OperationKind.CREATE, valid(None, reason), self._starts[0], ())
        for number, start in enumerate(self._starts[1:], 2):
            changes = tuple(_field_changes(self._state, start))
            if changes:
                self._write(valid(None, f"example {number}"), start, changes)
        self._add(OperationKind.RECREATE, valid(None, "deleted and created again"), self._state, ())

    def _example(self, number: int, example: JsonValue) -> JsonObject:
        """Return an example under the name of the first one."""
        if not isinstance(example, dict) or not isinstance(example.get("metadata", {}), dict):
            raise UsageError(f"example {number} is not a custom resource: pass the object that is in its YAML file")
        obj = self._definition.object(example)
        strange = [obj[key] for key in ("apiVersion", "kind") if obj[key] != self._definition.types[key]]
        if strange:
            expected = " ".join(self._definition.types.values())
            raise UsageError(f"example {number} is a {strange[0]}: pass custom resources of {expected}")
        first = self._starts[0] if self._starts else obj
        # An example may come from a server, which sets more than a client may.
        texts = {key: obj["metadata"][key] for key in ("labels", "annotations") if key in obj["metadata"]}
        obj = {key: part for key, part in obj.items() if key != "status"}
        obj["metadata"] = {**_identity(first["metadata"]), **texts}
        errors = self._admits(obj, None)
        if errors:
            path, _, reason = errors[0].partition(": ")
            raise NoCustomResourceError(FieldPath(path), f"example {number}: {reason}", "correct the example")
        return obj

    def _small(self) -> JsonObject:
        root = self._definition.root
        fields = {name: self._values.smallest(field) for name, field in root.properties.items() if field.required}
        if "spec" in root.properties:
            fields["spec"] = self._values.smallest(root.properties["spec"])
        return made_valid(self._definition.object(fields), root, self._values, self._admits)

    # -------------------------------------------------------------- turns
    def _fields(self) -> list[SchemaField]:
        metadata = SchemaField(("metadata",), _METADATA, self._definition.root)
        below = islice(self._definition.root.walk(), self._options.fields)
        return [*metadata.properties.values(), *below]

    def _shuffled(self, turns: Sequence[_Turns], number: int) -> list[_Turns]:
        """Return the turns of a round in the order that the seed chooses.

        The operator's own fields come before those of pod templates, of which it passes most on.
        """

        def position(turns: _Turns) -> tuple[bool, bytes]:
            text = f"{self._options.seed}/{number}/{turns.field.path}"
            return self._values.is_stricter(turns.field), hashlib.blake2b(text.encode()).digest()

        return sorted(turns, key=position)

    def _take_turn(self, turns: _Turns) -> None:
        """Add one operation on a field, if it has a value that was not used."""
        turns.visited = True
        current = value_at(self._state, turns.field)
        for one in turns.ordered(self._proposals(turns.field, current)):
            if self._try(turns, one, current):
                turns.used.add(one.reason)
                turns.count += 1
                return

    def _proposals(self, field: SchemaField, current: JsonValue) -> list[FieldValue]:
        values = self._values.values(field, current)
        parent = field.parent
        if parent is not None and value_at(self._state, parent) is ABSENT and self._values.is_stricter(parent):
            values = list(as_uncertain(values))  # the parent would have this field only
        for number, start in enumerate(self._starts, 1):
            value = value_at(start, field)
            if value is not ABSENT:
                values.append(valid(value, f"the value of example {number}" if self._examples else "the first value"))
        if field.path[0] == "metadata":
            return [one for one in values if one.value_class is ValueClass.VALID]
        return values

    def _try(self, turns: _Turns, one: FieldValue, current: JsonValue) -> bool:
        """Add the operation that sets a value; return False if there is none."""
        field = turns.field
        if one.value is not ABSENT and type(one.value) is type(current) and one.value == current:
            return False
        try:
            after = with_value(self._state, field, one.value, self._values)
        except NoCustomResourceError as error:
            turns.refuse(one, str(error))
            return False
        if one.value_class is ValueClass.BEYOND:
            return self._try_beyond(turns, one, after)
        if self._definition.complete(after) == self._definition.complete(self._state):
            return False
        errors = self._admits(after, self._state)
        others: list[SchemaField] = []
        if errors and self._admits(after, None):
            repair = repaired(after, self._state, (field, one.value), self._values, self._admits)
            if repair is None:
                turns.refuse(one, errors[0])
                return False
            after, other = repair
            others.append(other)
        changes = tuple(_change(self._state, after, changed) for changed in (field, *others))
        before = self._state
        self._write(one, after, changes)
        turns.changed = True
        if one.value_class is not ValueClass.VALID:
            undone = tuple(ChangedField(path=each.path, before=each.after, after=each.before) for each in changes)
            self._write(valid(None, "back to the state before"), before, undone, kind=OperationKind.ROLLBACK)
        return True

    def _try_beyond(self, turns: _Turns, one: FieldValue, after: JsonObject) -> bool:
        errors = self._admits(after, self._state)
        if not any(_names(error, turns.field) for error in errors):
            turns.refuse(one, "")
            return False
        change = ChangedField(path=turns.field.path, before=value_at(self._state, turns.field), after=one.value)
        self._add(OperationKind.UPDATE, one, after, (change,))
        return True

    # -------------------------------------------------------------- operations
    def _write(
        self,
        value: FieldValue,
        after: JsonObject,
        changes: tuple[ChangedField, ...],
        *,
        kind: OperationKind = OperationKind.UPDATE,
    ) -> None:
        """Add an operation that the server admits, if there is one.

        Where the server refuses an update, as of an immutable field, the object is created again.
        """
        if not self._admits(after, self._state):
            self._add(kind, value, after, changes)
        elif not self._admits(after, None):
            self._add(OperationKind.RECREATE, value, after, changes)

    def _add(
        self, kind: OperationKind, value: FieldValue, after: JsonObject, changes: tuple[ChangedField, ...]
    ) -> None:
        is_update = kind in (OperationKind.UPDATE, OperationKind.ROLLBACK)
        operation = Operation(
            kind=kind,
            value_class=value.value_class,
            reason=value.reason,
            changes=changes,
            before=self._state or None,
            after=after,
            shrinks=is_update and self._shrinks(after),
        )
        self._operations.append(operation)
        if value.value_class is not ValueClass.BEYOND:
            self._state = after

    def _shrinks(self, after: JsonObject) -> bool:
        """Whether a volume would be smaller than in the present state."""
        before, after = self._definition.complete(self._state), self._definition.complete(after)
        sizes = ((volume_size(value_at(before, each)), volume_size(value_at(after, each))) for each in self._volumes)
        return any(former is not None and size is not None and size < former for former, size in sizes)

    # -------------------------------------------------------------- what is left out
    def _unchanged(self, turns: Sequence[_Turns]) -> Iterator[UnchangedField]:
        # A field that changes, changes the fields above it.
        changed = {one.field.path[:depth] for one in turns if one.changed for depth in range(len(one.field.path) + 1)}
        for one in turns:
            if one.field.path not in changed:
                yield UnchangedField(one.field.path, self._reason(one))

    def _reason(self, turns: _Turns) -> str:
        if turns.refusal:
            return f"the server refuses each change: {turns.refusal}"
        if not turns.visited:
            return f"the budget of {self._options.operations} operations ended before its turn"
        try:
            self._values.smallest(turns.field)
        except NoCustomResourceError as error:
            return f"{error.reason}: add an example with this field"
        return "the schema admits no other value than the present one"

    def _references(self, turns: Sequence[_Turns]) -> Iterator[ReferencedObject]:
        """Yield the objects that harmless custom resources name, each once."""
        valid_states = [one.after for one in self._operations if one.value_class is ValueClass.VALID]
        states = [self._definition.complete(state) for state in valid_states]
        for one in turns:
            if self._values.shape(one.field) is Shape.REFERENCE:
                names = dict.fromkeys(name for state in states if isinstance(name := value_at(state, one.field), str))
                for name in filter(None, names):
                    yield ReferencedObject(one.field.path, referenced_kind(one.field), name)

    def _cut(self, turns: Sequence[_Turns]) -> Iterator[str]:
        """Yield a sentence for each budget that was used up."""
        budget = self._options.schema
        if self._definition.cut:
            parts = _some(self._definition.cut)
            yield f"the schema has parts beyond {budget.depth} levels or {budget.fields} fields: {parts}"
        rest = [str(field) for field in islice(self._definition.root.walk(), self._options.fields, None)]
        if rest:
            yield f"{len(rest)} fields are beyond the budget of {self._options.fields} fields: {_some(rest)}"
        late = sum(not one.visited for one in turns)
        if self._is_full:
            yield f"the workload ends after {self._options.operations} operations: {late} fields had no turn"


def _change(before: JsonObject, after: JsonObject, field: SchemaField) -> ChangedField:
    return ChangedField(path=field.path, before=value_at(before, field), after=value_at(after, field))


def _field_changes(before: JsonObject, after: JsonObject) -> Iterator[ChangedField]:
    """Yield the fields of the spec, and of other parts of the root, that differ."""
    for part in sorted((before.keys() | after.keys()) - {"apiVersion", "kind", "status"}):
        one, other = before.get(part, ABSENT), after.get(part, ABSENT)
        if isinstance(one, dict) and isinstance(other, dict):
            for name in sorted(one.keys() | other.keys()):
                path = (part, name)
                change = ChangedField(
                    path=path, before=get_path(before, path, ABSENT), after=get_path(after, path, ABSENT)
                )
                if change.before != change.after:
                    yield change
        elif one != other:
            yield ChangedField(path=(part,), before=one, after=other)


def _identity(metadata: JsonObject) -> JsonObject:
    return {key: metadata[key] for key in ("name", "namespace") if key in metadata}


def _names(error: str, field: SchemaField) -> bool:
    """Report whether an error names the path of a field."""
    _, *rests = error.split(str(field))
    return any(not (rest[:1].isalnum() or rest[:1] in ("-", "_")) for rest in rests)


def _some(paths: Sequence[str]) -> str:
    """Return the first paths of many."""
    return listed([path or "the root" for path in paths], _NAMED)
