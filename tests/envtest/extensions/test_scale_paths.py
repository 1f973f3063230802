"""The scale of custom resources."""

from __future__ import annotations

import pytest

from envtest.extensions.scale_paths import ScalePaths
from opsdk.errors import ApiError
from opsdk.structured_merge.value import JsonObject

PATHS = ScalePaths(
    {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n", "labelSelectorPath": ".status.selector"}
)
META = {"metadata": {"name": "a"}}


def test_a_scale_shows_what_the_paths_lead_to() -> None:
    """A Scale has replicas of spec and status, and the selector; missing spec replicas are an error."""
    obj = {**META, "spec": {"n": 3}, "status": {"n": 2, "selector": "a=b"}}
    scale = PATHS.show(obj)
    assert (scale["spec"], scale["status"]) == ({"replicas": 3}, {"replicas": 2, "selector": "a=b"})
    assert PATHS.show({**META, "spec": {"n": 3}})["status"] == {"replicas": 0}
    with pytest.raises(ApiError, match=r'the spec replicas field ".spec.n" does not exist'):
        PATHS.show({**META})
    with pytest.raises(ApiError, match=r'the spec replicas field ".spec.n" cannot be empty'):
        PATHS.put({}, PATHS.to_write({**META})["spec"]["replicas"])


@pytest.mark.parametrize(
    ("obj", "fault"),
    [
        ({"spec": "x"}, ".spec.n accessor error: x is of the type string, expected map[string]interface{}"),
        ({"spec": {"n": "x"}}, ".spec.n accessor error: x is of the type string, expected int64"),
        ({"spec": {"n": 1.5}}, ".spec.n accessor error: 1.5 is of the type float64, expected int64"),
        ({"spec": {"n": None}}, ".spec.n accessor error: <nil> is of the type <nil>, expected int64"),
        ({"spec": {"n": True}}, ".spec.n accessor error: true is of the type bool, expected int64"),
        (
            {"status": {"selector": {}}},
            ".status.selector accessor error: map[] is of the type map[string]interface {},",
        ),
    ],
)
def test_wrong_types_on_a_scale_path_are_errors(obj: JsonObject, fault: str) -> None:
    """A wrong type on a scale path is a 500 on read and a validation error on write."""
    with pytest.raises(ApiError) as caught:
        PATHS.show({**META, **obj})
    assert caught.value.code == 500
    assert caught.value.message.startswith(fault)
    [error] = PATHS.check({**META, **obj})
    assert error.detail.startswith(fault)


@pytest.mark.parametrize("count", [-1, 2**31])
def test_numbers_have_limits(count: int) -> None:
    """Replicas are a whole number of 31 bits, in the spec and in the status; a status is checked alone."""
    reason = "should be a non-negative integer" if count < 0 else "should be less than or equal to 2147483647"
    obj = {"spec": {"n": count}, "status": {"n": count}}
    assert [(e.field, e.detail) for e in PATHS.check(obj)] == [(".spec.n", reason), (".status.n", reason)]
    assert [e.field for e in PATHS.check(obj, status_only=True)] == [".status.n"]


def test_replicas_are_put_where_the_path_leads() -> None:
    """Missing parents are created; a parent that is not an object is an error."""
    obj: JsonObject = {}
    PATHS.put(obj, 4)
    assert obj == {"spec": {"n": 4}}
    with pytest.raises(ApiError, match=r"value cannot be set because .spec is not a map"):
        PATHS.put({"spec": 1}, 4)
