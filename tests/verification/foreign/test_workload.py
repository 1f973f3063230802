"""Workloads of files and of generated operations, and the errors of wrong ones."""

from __future__ import annotations

from contextlib import suppress

import pytest
from foreign_operators import DEFINITION
from hypothesis import given
from hypothesis import strategies as st

from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.verification.foreign.errors import WorkloadError
from opsdk.verification.foreign.workload import generated_workloads, parse_workload
from opsdk.verification.workload.operations import GeneratedWorkload, Operation, OperationKind, ReferencedObject
from opsdk.verification.workload.transitions import WorkloadOptions, generate_workload
from opsdk.verification.workload.values import ValueClass

NODE: JsonObject = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}


def parsed(*steps: JsonValue) -> list[str]:
    """The texts of steps; a file `nodes.yaml` has one node."""
    workload = parse_workload("w.yaml", {"steps": list(steps)}, lambda name: [NODE] if name == "nodes.yaml" else [])
    return [str(step) for step in workload.steps]


def test_a_file_has_steps() -> None:
    """Objects in the file or in another one, merge patches, deletions and pauses."""
    assert parsed(
        {"apply": "nodes.yaml"},
        {"apply": NODE},
        {"patch": "nodes/a", "merge": {"spec": {"unschedulable": True}}},
        {"wait": 1.5},
        {"delete": "configmaps/default/b"},
    ) == [
        "apply Node a",
        "apply Node a",
        'patch nodes/a: {"spec": {"unschedulable": true}}',
        "wait 1.5 s",
        "delete configmaps/default/b",
    ]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({}, "step 1: write one of apply, patch with merge, delete and wait"),
        ({"delete": "nodes/a", "wait": 5}, "step 1: write one of"),
        ({"patch": "nodes/a"}, "step 1: write one of"),
        ({"merge": {"a": 1}, "wait": 5}, "step 1: write one of"),
        ({"remove": "nodes/a"}, "unknown field `remove` - at `$.steps[0]`"),
        ({"wait": "long"}, "Expected `float`, got `str` - at `$.steps[0].wait`"),
        ({"wait": -1}, "wait is -1: write seconds"),
        ({"delete": "a"}, "'a' does not name an object: write KIND/NAMESPACE/NAME"),
        ({"delete": "pods//a"}, "'pods//a' does not name an object"),
        ({"apply": {"kind": "Node"}}, "an object to apply needs apiVersion, kind and metadata.name"),
        ({"apply": {"apiVersion": "v1", "kind": "Node", "metadata": 5}}, "an object to apply needs"),
        ({"apply": "empty.yaml"}, "step 1: empty.yaml has no objects"),
    ],
)
def test_a_wrong_step_is_named(step: JsonValue, message: str) -> None:
    """The message says what to write."""
    with pytest.raises(WorkloadError) as caught:
        parsed(step)
    assert str(caught.value).startswith("w.yaml: ")
    assert message in str(caught.value)


def test_a_workload_without_steps_is_an_error() -> None:
    """There is nothing to do."""
    with pytest.raises(WorkloadError, match="has no steps"):
        parsed()


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["steps", "apply", "merge"]) | st.text(), inner)
        ),
    )
)
def test_any_document_is_a_workload_or_an_error(tree: JsonValue) -> None:
    """Foreign input raises nothing else."""
    with suppress(WorkloadError):
        assert parse_workload("w.yaml", tree, lambda _: []).steps


def test_generated_operations_become_short_workloads() -> None:
    """Each creates its object first and deletes it at the end. A re-creation is a deletion and a creation."""
    generated = generate_workload(DEFINITION, options=WorkloadOptions(operations=12))
    workloads = list(generated_workloads("sites.demo.opsdk.dev", generated))
    assert len(workloads) > 1
    for workload in workloads:
        assert workload.tolerant
        assert workload.steps[0].apply
        assert workload.steps[-1].delete.startswith("sites.demo.opsdk.dev/")
    recreations = [each for each in generated.operations if each.kind is OperationKind.RECREATE]
    deletions = [step for workload in workloads for step in workload.steps[:-1] if step.delete]
    assert len(deletions) == len(recreations)


def test_objects_that_custom_resources_name_are_created_with_their_fields() -> None:
    """As for an operator of opsdk: with the version of their kind, and with the keys of a login."""
    change = Operation(
        kind=OperationKind.CREATE, value_class=ValueClass.VALID, reason="a", changes=(), before=None, after=NODE
    )  # fmt: skip
    references = (
        ReferencedObject(("spec", "class"), "StorageClass", "fast"),
        ReferencedObject(("spec", "login"), "Secret", "login"),
        ReferencedObject(("spec", "other"), "Unicorn", "other"),
    )
    generated = GeneratedWorkload(operations=(change,), references=references)
    (workload,) = generated_workloads("sites.demo.opsdk.dev", generated)
    storage_class, secret = workload.steps[0].apply
    assert storage_class["apiVersion"] == "storage.k8s.io/v1"
    assert "namespace" not in storage_class["metadata"]
    assert "password" in secret["stringData"]
