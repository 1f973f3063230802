"""Which fields decide something: what operations say about them, and which neighbours may enable them."""

from __future__ import annotations

import pytest

from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.verification.field_reach import FieldReach, trials
from opsdk.verification.workload.definition import DefinitionVersion
from opsdk.verification.workload.operations import ChangedField, Operation, OperationKind
from opsdk.verification.workload.schema_fields import Path, SchemaBudget
from opsdk.verification.workload.values import ABSENT, ValueClass

PROXY = {"type": "object", "properties": {"enabled": {"type": "boolean"}, "port": {"type": "integer"}}}
TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
SPEC = {
    "type": "object",
    "properties": {"text": TEXT, "proxy": PROXY, "watchNamespace": TEXT, "avoidNamespaces": TEXTS},
}
SCHEMA = {"type": "object", "properties": {"spec": SPEC}}
DEFINITION: JsonObject = {
    "spec": {
        "group": "example.com",
        "names": {"kind": "Site"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}],
    }
}


def changing(path: Path, before: JsonValue, after: JsonValue, value_class: ValueClass = ValueClass.VALID) -> Operation:
    """An update of one field."""
    change = ChangedField(path=path, before=before, after=after)
    obj: JsonObject = {"apiVersion": "example.com/v1", "kind": "Site", "metadata": {"name": "a"}, "spec": {}}
    return Operation(
        kind=OperationKind.UPDATE, value_class=value_class, reason="a", changes=(change,), before=obj, after=obj
    )


def suspects(*results: tuple[Operation, bool]) -> list[Path]:
    """The fields that decide nothing."""
    reach = FieldReach()
    for operation, effective in results:
        reach.add(operation, effective=effective)
    return [path for path, _ in reach.suspects()]


def test_a_field_without_effect_is_suspected_once() -> None:
    """With those below it; one that has an effect elsewhere is not, nor is one above it."""
    port, proxy, text = ("spec", "proxy", "port"), ("spec", "proxy"), ("spec", "text")
    without = (changing(port, 1, 2), False), (changing(proxy, {"port": 1}, ABSENT), False)
    assert suspects(*without, (changing(text, "a", "b"), True)) == [proxy]
    assert suspects(*without, (changing(port, 2, 3), True)) == []


@pytest.mark.parametrize(
    "operation",
    [
        changing(("metadata", "labels"), {}, {"a": "b"}),
        changing(("spec",), {"a": 1}, {"a": 2}),
        changing(("spec", "text"), ABSENT, ""),
        changing(("spec", "text"), "a", "b", ValueClass.MISOPERATION),
    ],
)
def test_some_operations_say_nothing(operation: Operation) -> None:
    """Labels are not the operator's; empty values mean the same; harmful ones may be ignored."""
    assert suspects((operation, False)) == []


def test_a_field_is_tried_with_its_flag() -> None:
    """The trials differ in the field only, and one has the flag on."""
    definition = DefinitionVersion(DEFINITION, "v1", SchemaBudget())
    path = ("spec", "proxy", "port")
    pairs = list(trials(definition, changing(path, 1, 2), path))
    assert any(before["spec"]["proxy"].get("enabled") is True for before, _ in pairs)
    for before, after in pairs:
        proxies = before["spec"].get("proxy", {}), after["spec"].get("proxy", {})
        assert proxies[0].get("port") != proxies[1].get("port")
        assert proxies[0].get("enabled") == proxies[1].get("enabled")


@pytest.mark.parametrize(("field", "value"), [("watchNamespace", "default"), ("avoidNamespaces", ["default"])])
def test_a_field_that_names_namespaces_is_tried_with_one_that_exists(field: str, value: JsonValue) -> None:
    """The name of no namespace changes nothing, which is no bug."""
    definition = DefinitionVersion(DEFINITION, "v1", SchemaBudget())
    path = ("spec", field)
    pairs = list(trials(definition, changing(path, ABSENT, ["example"]), path))
    assert value in [after["spec"].get(field) for _, after in pairs]


def test_a_field_is_tried_with_the_flag_of_an_object_beside_it() -> None:
    """The number of members may count only while they are exposed."""
    definition = DefinitionVersion(DEFINITION, "v1", SchemaBudget())
    path = ("spec", "text")
    pairs = list(trials(definition, changing(path, "a", "b"), path))
    assert any(before["spec"].get("proxy", {}).get("enabled") is True for before, _ in pairs)


def test_a_field_is_tried_with_another_number_beside_it() -> None:
    """An arbiter may count only with an even number of members."""
    members = {"type": "integer", "default": 1}
    spec = {"type": "object", "properties": {"members": members, "arbiter": {"type": "boolean"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    versions = [{"name": "v1", "storage": True, "schema": schema}]
    definition = DefinitionVersion({"spec": {**DEFINITION["spec"], "versions": versions}}, "v1", SchemaBudget())
    path = ("spec", "arbiter")
    pairs = list(trials(definition, changing(path, False, True), path))
    assert 2 in [before["spec"].get("members") for before, _ in pairs]
