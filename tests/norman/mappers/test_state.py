"""The state of objects, for which Rancher's clients wait."""

from __future__ import annotations

import copy

import pytest

from opsdk.api.apps.v1 import Deployment
from opsdk.api.core.v1 import ConfigMap
from opsdk.norman.mappers.state import add_state
from opsdk.norman.model import Schema
from opsdk.norman.schemas import NormanSchemas
from opsdk.structured_merge.value import JsonObject
from tests.norman.mappers.kit import V3, schema


def deployments() -> Schema:
    """Return the schema of Deployments."""
    result = NormanSchemas.for_kubernetes(V3).import_class(V3, Deployment, add_state).schema(V3, "deployment")
    assert result is not None
    return result


READY: JsonObject = {"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
STUCK = {"conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"}]}


@pytest.mark.parametrize(
    ("metadata", "status", "state", "transitioning"),
    [
        ({}, READY, "active", "no"),
        ({}, {**READY, "observedGeneration": 1}, "updating", "yes"),
        ({}, {**READY, **STUCK}, "error", "error"),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}, READY, "removing", "yes"),
    ],
)
def test_the_state_follows_spec_status_and_deletion(
    metadata: JsonObject, status: JsonObject, state: str, transitioning: str
) -> None:
    """The mapper judges the internal object: a spec that no controller has seen is in progress."""
    mapper = deployments().mapper
    assert mapper is not None
    tree: JsonObject = {
        "metadata": {"name": "a", "namespace": "b", "generation": 2, **metadata},
        "spec": {"replicas": 1},
        "status": status,
    }
    external = copy.deepcopy(tree)
    mapper.from_internal(external)
    assert (external["state"], external["transitioning"]) == (state, transitioning)
    assert bool(external["transitioningMessage"]) == (state != "active")
    mapper.to_internal(external)
    assert (external["spec"], external["status"]) == (tree["spec"], tree["status"])
    assert external.keys() == {*tree, "apiVersion", "kind"}


def test_clients_filter_by_the_state_and_do_not_write_it() -> None:
    """The fields are declared, read-only."""
    declared = deployments()
    field = declared.resource_fields["state"]
    assert (field.create, field.update, "state" in declared.collection_filters) == (False, False, True)


def test_a_kind_with_a_field_of_that_name_keeps_it() -> None:
    """A kind without a status, or with its own state fields, does not change."""
    own = schema(status="json", state="int")
    for each in (own, NormanSchemas.for_kubernetes(V3).import_class(V3, ConfigMap).schema(V3, "configMap")):
        assert each is not None
        fields, mapper = dict(each.resource_fields), each.mapper
        add_state(each)
        assert (each.resource_fields, each.mapper) == (fields, mapper)
