"""Objects that custom resources and pods name."""

from __future__ import annotations

import pytest

from opsdk.engine.world.rest_state import RestState
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.life.references import change_of, missing_references, stale_pods

KEY = "apps/deployments/default/web"


def state_with(container: JsonObject, checksum: str = "", **spec: object) -> RestState:
    """A Deployment with one container."""
    template = {"metadata": {"annotations": {"sum": checksum}}, "spec": {"containers": [container], **spec}}
    return RestState(objects={KEY: [{"spec": {"template": template}}]})


BY_NAME: JsonObject = {"envFrom": [{"secretRef": {"name": "login"}}]}
BY_KEY: JsonObject = {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "login", "key": "a"}}}]}
SUB_PATH: JsonObject = {"volumeMounts": [{"name": "v", "mountPath": "/a", "subPath": "a"}]}
VOLUME: JsonObject = {"volumeMounts": [{"name": "v", "mountPath": "/a"}]}


@pytest.mark.parametrize("container", [BY_NAME, BY_KEY, SUB_PATH])
def test_pods_that_read_once_must_change_with_what_they_read(container: JsonObject) -> None:
    """A template with a checksum changes; another object does not matter."""
    volumes = [{"name": "v", "secret": {"secretName": "login"}}]
    before = state_with(container, volumes=volumes)
    (difference,) = stale_pods(before, before, {"Secret login"})
    assert "deployments default/web has Secret login in its environment" in difference.text
    assert stale_pods(before, state_with(container, "new", volumes=volumes), {"Secret login"}) == []
    assert stale_pods(before, before, {"ConfigMap login"}) == []


def test_files_of_a_volume_change_in_running_pods() -> None:
    """No restart is needed for them."""
    state = state_with(VOLUME, volumes=[{"name": "v", "secret": {"secretName": "login"}}])
    assert stale_pods(state, state, {"Secret login"}) == []


def test_what_the_operator_and_its_pods_look_for_is_created() -> None:
    """Apart from what exists, and from what the operator itself writes."""
    own = {"core/secrets/default/own": [{}]}
    state = RestState(
        objects={**state_with(BY_NAME).objects, **own},
        missing=frozenset(
            {"ConfigMap default/settings", "Secret default/own", "Pod default/web", "Secret default/old"}
        ),
    )
    trees = list(missing_references(state, {"Secret default/old"}, "default"))
    assert [(tree["kind"], tree["metadata"]["name"]) for tree in trees] == [
        ("ConfigMap", "settings"),
        ("Secret", "login"),
    ]


def test_only_objects_with_content_change() -> None:
    """Each of their values does."""
    assert change_of({"kind": "Secret", "stringData": {"a": "1"}}) == {
        "stringData": {"a": "changed", "changed": "changed"}
    }
    assert change_of({"kind": "ServiceAccount"}) is None
