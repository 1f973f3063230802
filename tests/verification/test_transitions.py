"""Laws of generated operations: order, budgets, rollbacks, examples and errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opsdk.errors import OpsdkError, UsageError
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.workload.definition import DefinitionVersion
from opsdk.verification.workload.errors import NoCustomResourceError
from opsdk.verification.workload.operations import GeneratedWorkload, Operation, OperationKind, ReferencedObject
from opsdk.verification.workload.schema_fields import SchemaBudget
from opsdk.verification.workload.shape_values import volume_size
from opsdk.verification.workload.transitions import WorkloadOptions, generate_workload
from opsdk.verification.workload.values import ABSENT, ValueClass
from tests.verification.public_definitions import AUTOSCALER, CERTIFICATE, MESSAGE_BROKER, PUBLIC, ROUTE, definition

STRING = {"type": "string"}
ALL = WorkloadOptions(operations=5000)


def certificate(**spec: Any) -> JsonObject:
    """Return a certificate of an author."""
    fields = {"issuerRef": {"name": "ca"}, "secretName": "tls", **spec}
    return {"kind": "Certificate", "metadata": {"name": "web", "namespace": "team"}, "spec": fields}


def changes_of(workload: GeneratedWorkload, *path: str) -> list[Operation]:
    """Return the operations that change the field at a path."""
    return [one for one in workload.operations if any(change.path == path for change in one.changes)]


# ------------------------------------------------------------------ order and budgets
@pytest.mark.parametrize("one", PUBLIC, ids=lambda one: str(one["spec"]["names"]["kind"]))
def test_each_field_is_changed_once_before_any_is_changed_twice(one: JsonObject) -> None:
    """With one turn for each field, no field has two operations; a rollback belongs to its operation."""
    full = generate_workload(one, options=ALL)
    updates = [each for each in full.operations if each.changes and each.kind is not OperationKind.ROLLBACK]
    first: dict[tuple[str | int, ...], int] = {}
    second: list[int] = []
    for index, operation in enumerate(updates):
        if operation.reason == "back to the state before":
            continue
        path = operation.changes[0].path
        if path in first:
            second.append(index)
        first.setdefault(path, index)
    never_first = {path for path, index in first.items() if index > min(second)}
    # A field may have nothing to change in the first round, such as one that is absent.
    assert len(never_first) <= len(first) // 4


@given(st.integers(0, 60), st.integers(1, 8))
@pytest.mark.slow
def test_budgets_are_kept_and_named(operations: int, fields: int) -> None:
    """There are not more operations and fields than allowed, and the output names the budget that ended it."""
    options = WorkloadOptions(operations=operations, fields=fields)
    workload = generate_workload(MESSAGE_BROKER, options=options)
    assert len(workload.operations) <= operations
    paths = {change.path for one in workload.operations for change in one.changes if change.path[0] == "spec"}
    assert len(paths) <= fields
    assert any(f"the budget of {fields} fields" in sentence for sentence in workload.cut)
    assert workload.complete or any(f"after {operations} operations" in sentence for sentence in workload.cut)


def test_schema_that_contains_itself_has_a_workload() -> None:
    """A recursive schema is cut at its budget, which the output names."""
    node: JsonObject = {"type": "object", "properties": {"value": STRING}}
    node["properties"]["left"] = node
    recursive = definition("Tree", {"properties": {"root": node}})
    options = WorkloadOptions(operations=100, schema=SchemaBudget(depth=6))
    workload = generate_workload(recursive, options=options)
    assert workload.complete
    rest = "spec.root.left.left.left.value, spec.root.left.left.left.left"
    assert workload.cut == (f"the schema has parts beyond 6 levels or 20000 fields: {rest}",)


@pytest.mark.slow
@settings(max_examples=10)
@given(st.integers(0, 2**64))
def test_seed_changes_the_order_only(seed: int) -> None:
    """Each seed changes the same fields."""
    workload = generate_workload(AUTOSCALER, options=WorkloadOptions(operations=5000, seed=seed))
    assert workload.complete
    assert workload.unchanged == ()


# ------------------------------------------------------------------ operations
def test_misoperations_and_boundaries_are_rolled_back() -> None:
    """After a value at the edge or a misoperation, the state before is written again."""
    operations = generate_workload(MESSAGE_BROKER, options=ALL).operations
    pairs = list(pairwise(operations))
    harmful = [pair for pair in pairs if pair[0].value_class in (ValueClass.MISOPERATION, ValueClass.BOUNDARY)]
    assert Counter(one.value_class for one, _ in harmful)[ValueClass.MISOPERATION] > 20
    assert all(undone.after == one.before for one, undone in harmful)


def test_replicas_are_scaled_up_and_down_again() -> None:
    """Harmless values build on each other, and the first value comes back."""
    operations = changes_of(generate_workload(MESSAGE_BROKER, options=ALL), "spec", "replicas")
    counts = [one.changes[0].after for one in operations if one.value_class is ValueClass.VALID]
    assert {1, 2, 3} <= set(counts)


@pytest.mark.parametrize("kind", ["integer", "string"])
def test_smaller_volumes_are_harmful(kind: str) -> None:
    """Kubernetes refuses to shrink a claim. A default counts, and so does a rollback."""
    field = {"type": kind, "default": 5 if kind == "integer" else "5Gi"}
    one = definition("Disk", {"type": "object", "properties": {"storageSize": field, "size": {"type": "integer"}}})
    operations = generate_workload(one, options=ALL).operations
    completed = DefinitionVersion(one, "", SchemaBudget())
    for each in operations[2:]:
        if each.value_class is ValueClass.BEYOND or each.before is None:
            continue
        specs = [completed.complete(obj).get("spec") or {} for obj in (each.before, each.after)]
        before, after = (volume_size(spec.get("storageSize")) for spec in specs)
        is_smaller = before is not None and after is not None and after < before
        assert (each.shrinks, each.is_harmful or not is_smaller) == (is_smaller, True), each
    assert any(each.shrinks and each.kind is OperationKind.ROLLBACK for each in operations)


def test_dependent_fields_change_together() -> None:
    """Where a rule compares two fields, an operation changes both."""
    operations = changes_of(generate_workload(AUTOSCALER, options=ALL), "spec", "minReplicas")
    pairs = [{change.path[-1]: change.after for change in one.changes} for one in operations if len(one.changes) == 2]
    assert any(pair.get("minReplicas", 0) == pair.get("maxReplicas") for pair in pairs)


def test_alternatives_replace_each_other() -> None:
    """A field that excludes another one is set while the other one is removed."""
    workload = generate_workload(CERTIFICATE, options=ALL)
    changes = [change for one in changes_of(workload, "spec", "renewBefore") for change in one.changes]
    assert any(change.path[-1] == "renewBeforePercentage" and change.after is ABSENT for change in changes)


def test_immutable_fields_change_by_creating_again() -> None:
    """A field that cannot be updated changes with a new object of the same name."""
    immutable = [{"rule": "self == oldSelf"}]
    engine = {"type": "string", "enum": ["mysql", "postgres"], "x-kubernetes-validations": immutable}
    one = definition("Engine", {"required": ["engine"], "properties": {"engine": engine}})
    operations = changes_of(generate_workload(one, options=ALL), "spec", "engine")
    admitted = [each for each in operations if each.value_class is not ValueClass.BEYOND]
    assert {each.kind for each in admitted} == {OperationKind.RECREATE}
    assert {each.after["metadata"]["name"] for each in admitted} == {"example"}


def test_server_decides() -> None:
    """A value that the server refuses beyond the schema is never written, and the field is named with the error."""
    one = definition("Gate", {"properties": {"port": {"type": "integer"}, "host": STRING}})
    schema = DefinitionVersion(one, "", SchemaBudget())

    def admits(obj: JsonObject, old: JsonObject | None) -> Sequence[str]:
        errors = schema.errors(obj, old)
        refused = not errors and "port" in obj.get("spec", {})
        return ["spec.port: Forbidden: a webhook says so"] if refused else errors

    workload = generate_workload(one, options=ALL, admits=admits)
    assert changes_of(workload, "spec", "host")
    assert [str(field) for field in workload.unchanged] == [
        "spec.port: the server refuses each change: spec.port: Forbidden: a webhook says so"
    ]


def test_thousands_of_fields_take_one_sentence_for_each_reason() -> None:
    """Their number and the first ones are named, with what left them out."""
    many = definition("Gate", {"properties": {f"field{number}": STRING for number in range(4_000)}})
    workload = generate_workload(many, options=WorkloadOptions(operations=5))
    sentences = list(workload.left_out())
    assert len(workload.unchanged) > 3_900
    assert len(sentences) < 5
    assert f" and {len(workload.unchanged) - 5:,} more fields: the budget of 5 operations ended" in "".join(sentences)


# ------------------------------------------------------------------ examples
def test_examples_come_first() -> None:
    """The first example is created, the others replace it under its name, and their values are tried."""
    examples = [certificate(), certificate(commonName="example.com", dnsNames=["a.example.com"])]
    workload = generate_workload(CERTIFICATE, examples=examples, options=ALL)
    created, second, again = workload.operations[:3]
    assert (created.kind, created.after["spec"]) == (OperationKind.CREATE, examples[0]["spec"])
    assert [str(change) for change in second.changes] == [
        'spec.commonName: absent -> "example.com"',
        'spec.dnsNames: absent -> ["a.example.com"]',
    ]
    assert (again.kind, again.changes) == (OperationKind.RECREATE, ())
    names = {(one.after["metadata"]["name"], one.after["metadata"]["namespace"]) for one in workload.operations}
    assert names == {("web", "team")}
    values = [one.changes[0].after for one in changes_of(workload, "spec", "secretName")]
    assert "tls" in values


def test_named_objects_are_listed() -> None:
    """The output has the objects that a run must create."""
    workload = generate_workload(CERTIFICATE, examples=[certificate()], options=ALL)
    assert workload.references == (
        ReferencedObject(("spec", "secretName"), "Secret", "tls"),
        ReferencedObject(("spec", "issuerRef", "name"), "Issuer", "ca"),
    )


def test_wrong_example_is_named() -> None:
    """An example that the schema refuses is an error with its number and path."""
    with pytest.raises(
        NoCustomResourceError, match=r"^spec.commonName .* \(example 2: Too long: .*\): correct the example$"
    ):
        generate_workload(CERTIFICATE, examples=[certificate(), certificate(commonName="a" * 65)])


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ("text", "example 1 is not a custom resource"),
        ({"kind": "Pod"}, "example 1 is a Pod: pass custom resources of public.example.com/v1 Certificate"),
        ({"apiVersion": "v1", "kind": "Certificate"}, "example 1 is a v1: pass custom resources of public"),
    ],
)
def test_example_of_another_kind_is_named(example: Any, message: str) -> None:
    """An example that is no custom resource of the definition is an error that says what to pass."""
    with pytest.raises(UsageError, match=message):
        generate_workload(CERTIFICATE, examples=[example])


def test_example_without_a_name_gets_one() -> None:
    """Name and namespace of an example may be absent."""
    spec = certificate()["spec"]
    workload = generate_workload(
        CERTIFICATE, examples=[{"metadata": {"labels": {"a": "b"}}, "spec": spec}], options=ALL
    )
    metadata = workload.operations[0].after["metadata"]
    assert metadata == {"name": "example", "namespace": "default", "labels": {"a": "b"}}


# ------------------------------------------------------------------ schemas without values
@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({"type": "integer", "minimum": 5, "maximum": 3}, "minimum 5, maximum 3"),
        ({"type": "string", "enum": ["a"], "minLength": 2}, r"enum \['a'\], minLength 2"),
        ({"type": "string", "pattern": "^a$", "maxLength": 0}, r"maxLength 0, pattern \^a\$"),
        ({"type": "array", "items": {"type": "boolean"}, "x-kubernetes-list-type": "set", "minItems": 3}, "minItems 3"),
        ({"type": "object", "required": ["x"], "properties": {"x": STRING}, "maxProperties": 0}, "maxProperties 0"),
    ],
)
def test_required_field_without_value_is_named(schema: JsonObject, sentence: str) -> None:
    """The error has the path, the keywords that exclude each other, and what to add."""
    one = definition("Never", {"required": ["size"], "properties": {"size": schema}})
    with pytest.raises(
        NoCustomResourceError, match=rf"^spec.size has no value .*{sentence}.*: add an example with this"
    ):
        generate_workload(one)


def test_lists_of_lists_end() -> None:
    """A value of billions of parts is an error, and not a full memory."""
    schema: JsonObject = {"type": "string"}
    for _ in range(20):
        schema = {"type": "array", "minItems": 60, "items": schema}
    with pytest.raises(NoCustomResourceError, match=r"\(a value has more than 10000 parts\)"):
        generate_workload(definition("Deep", {"required": ["lists"], "properties": {"lists": schema}}))


def test_optional_field_without_value_is_named() -> None:
    """A field without a value stays as it is, and the output says why."""
    mystery = {"type": "string", "pattern": r"^(?:[^\x00-\x{10FFFF}])$"}
    workload = generate_workload(definition("Odd", {"properties": {"mystery": mystery, "host": STRING}}), options=ALL)
    (unchanged,) = workload.unchanged
    assert unchanged.path == ("spec", "mystery")
    assert unchanged.reason.endswith("add an example with this field")


def test_contradictory_rule_is_named() -> None:
    """A rule that nothing fulfils is an error with the server's message."""
    rule = {"rule": "self.size > 5 && self.size < 3", "message": "is impossible"}
    spec = {"required": ["size"], "properties": {"size": {"type": "integer"}}, "x-kubernetes-validations": [rule]}
    with pytest.raises(NoCustomResourceError, match=r"^spec .*is impossible.*: add"):
        generate_workload(definition("Never", spec))


def test_rule_of_two_fields_is_fulfilled_at_the_beginning() -> None:
    """The first custom resource fulfils a rule that its smallest fields break."""
    rules = [{"rule": "has(self.host) || has(self.port)"}]
    spec = {"properties": {"host": STRING, "port": {"type": "integer"}}, "x-kubernetes-validations": rules}
    workload = generate_workload(definition("Either", spec), options=ALL)
    assert workload.operations[0].after["spec"] in ({"host": "example"}, {"port": 8080})
    assert workload.unchanged == ()


@pytest.mark.parametrize(
    ("broken", "version", "message"),
    [
        ({}, "", "this is no CustomResourceDefinition"),
        ({"spec": {"versions": "v1"}}, "", "this is no CustomResourceDefinition"),
        (ROUTE, "v2", "Route has no schema for version 'v2': name one of v1 that has a schema"),
    ],
)
def test_definition_without_schema_is_refused(broken: JsonObject, version: str, message: str) -> None:
    """Another document, or another version, is an error that says what to pass."""
    with pytest.raises(UsageError, match=message):
        generate_workload(broken, version=version)


_KEYWORDS = st.sampled_from(
    [
        *("type", "properties", "items", "required", "enum", "default", "nullable", "pattern", "format", "minimum"),
        *("maximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "additionalProperties"),
        *("x-kubernetes-validations", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "allOf", "oneOf", "not"),
        *("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"),
    ]
)
_TEXTS = st.sampled_from(["object", "string", "integer", "array", "number", "boolean", "set", "map", "^a$", "a"])
_PARTS = st.recursive(
    st.one_of(_TEXTS, st.integers(-5, 5), st.booleans(), st.none(), st.floats(-3, 3)),
    lambda below: st.one_of(st.lists(below, max_size=3), st.dictionaries(_KEYWORDS | _TEXTS, below, max_size=5)),
    max_leaves=20,
)


@given(st.dictionaries(_KEYWORDS, _PARTS, max_size=5))
def test_any_schema_gives_a_workload_or_a_typed_error(spec: JsonObject) -> None:
    """A schema that no server serves is refused, or has a workload; nothing else is raised."""
    with suppress(OpsdkError):
        workload = generate_workload(definition("Any", spec), options=WorkloadOptions(operations=30))
        assert len(workload.operations) <= 30
