"""A trace context in a cluster is neither a change of a plan nor a decision that a shadow compares."""

from __future__ import annotations

from opsdk.base.traceparent import TRACEPARENT_ANNOTATION
from opsdk.engine.net_changes import NetChange
from opsdk.engine.ownership import own_part
from opsdk.engine.recording import RunPhase
from opsdk.structured_merge.value import JsonObject

TRACED = {f"f:{TRACEPARENT_ANNOTATION}": {}}


def config(annotations: JsonObject, owned: JsonObject) -> JsonObject:
    """A ConfigMap whose annotations the operator ``shop`` applied."""
    fields = {"f:metadata": {"f:annotations": owned}, "f:data": {"f:a": {}}}
    metadata = {"name": "a", "annotations": annotations, "managedFields": [{"manager": "shop", "fieldsV1": fields}]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}


def test_own_fields_are_without_it() -> None:
    """Alone, it leaves no annotations; beside others, it leaves them."""
    alone = config({TRACEPARENT_ANNOTATION: "x"}, TRACED)
    assert own_part(alone, {"shop"}) == {"data": {"a": "1"}}
    beside = config({TRACEPARENT_ANNOTATION: "x", "b": "c"}, {**TRACED, "f:b": {}})
    assert own_part(beside, {"shop"}) == {"metadata": {"annotations": {"b": "c"}}, "data": {"a": "1"}}


def test_a_plan_does_not_show_it() -> None:
    """The operator of a plan does not write it, so it disappears with the first write."""
    before, after = config({TRACEPARENT_ANNOTATION: "x"}, TRACED), config({}, {})
    del after["metadata"]["annotations"]
    change = NetChange(key="k", before=before, after=after, phase=RunPhase.OPERATOR)
    change.own_paths = {"metadata.annotations", "data.a"}
    assert change.differences == []
