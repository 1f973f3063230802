"""Reading bodies of built-in types."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envtest.codec.decode_context import DecodeContext
from envtest.codec.decoder import Decoders
from envtest.data.schemas import types
from opsdk.errors import DecodeError

PLANS = Decoders(types())
READ, _ = PLANS.of({"type": "string", "format": "byte"})


@given(data=st.binary(max_size=40), cut=st.integers(0, 60))
def test_bytes_are_kept_as_they_were_sent(data: bytes, cut: int) -> None:
    """Line breaks inside base64 are allowed, and are kept."""
    text = base64.b64encode(data).decode()
    text = f"{text[:cut]}\n{text[cut:]}"
    assert READ(text, DecodeContext()) == text


@pytest.mark.parametrize(
    ("text", "place"),
    [("ZZ", 0), ("ZZZZZ", 4), ("ZZ=", 3), ("Z=", 1), ("ZZ==Z", 4), ("Z!ZZ", 1), ("ZZ=Z", 2), ("=", 0)],
)
def test_invalid_base64_is_refused(text: str, place: int) -> None:
    """Text that is not base64 is refused with the place that Go's decoder names."""
    reading = DecodeContext()
    READ(text, reading)
    assert str(reading.first_error) == f"illegal base64 data at input byte {place}"


@pytest.mark.parametrize(
    ("kind", "body", "read"),
    [
        ("ConfigMap", {"data": {"a": None}, "binaryData": {"b": None}}, {"data": {"a": ""}, "binaryData": {"b": None}}),
        ("ResourceQuota", {"spec": {"hard": {"pods": None}}}, {"spec": {"hard": {"pods": "0"}}}),
        ("Pod", {"spec": {"securityContext": {"supplementalGroups": [None]}}}, None),
    ],
)
def test_nulls_in_lists_and_maps_become_zero_values(kind: str, body: Any, read: Any) -> None:
    """Nulls in lists and maps become the zero value of their type, as in Go."""
    created = PLANS.struct(f"io.k8s.api.core.v1.{kind}")(body, DecodeContext())
    if read is None:
        read = {"spec": {"securityContext": {"supplementalGroups": [0]}}}
    for key, value in read.items():
        assert {k: created[key][k] for k in value} == value


def said(kind: str, body: Any, *, memory: bool = False) -> str:
    """Why a body cannot be read."""
    with pytest.raises(DecodeError) as refused:
        PLANS.read(f"io.k8s.api.{kind}", body, DecodeContext(from_memory=memory))
    return str(refused.value)


INTO = "json: cannot unmarshal {} into Go struct field {} of type {}"


@pytest.mark.parametrize(
    ("kind", "body", "value", "field", "go_type"),
    [
        ("core.v1.Service", {"spec": {"type": 5}}, "number", "ServiceSpec.spec.type", "v1.ServiceType"),
        ("core.v1.Service", {"spec": {"ipFamilies": [5]}}, "number", "ServiceSpec.spec.ipFamilies", "v1.IPFamily"),
        ("core.v1.ConfigMap", {"metadata": {"uid": []}}, "array", "ObjectMeta.metadata.uid", "types.UID"),
        ("apps.v1.Deployment", {"spec": {"replicas": 1.5}}, "number 1.5", "DeploymentSpec.spec.replicas", "int32"),
        ("apps.v1.Deployment", {"spec": {"replicas": "3"}}, "string", "DeploymentSpec.spec.replicas", "int32"),
        ("core.v1.Pod", {"spec": {"overhead": 1}}, "number", "PodSpec.spec.overhead", "v1.ResourceList"),
        ("core.v1.ConfigMap", {"data": {"a": 1}}, "number", "ConfigMap.data", "string"),
        (
            "core.v1.Pod",
            {"spec": {"containers": [{"livenessProbe": {"exec": 1}}]}},
            "number",
            "Probe.spec.containers.livenessProbe.ProbeHandler.exec",
            "v1.ExecAction",
        ),
        (
            "core.v1.Pod",
            {"metadata": {"creationTimestamp": 0}},
            "number",
            "ObjectMeta.metadata.creationTimestamp",
            "string",
        ),
        ("core.v1.Secret", {"data": {"a": ["x"]}}, "string", "Secret.data", "uint8"),
    ],
)
def test_json_type_errors_name_the_go_field_and_type(
    kind: str, body: Any, value: str, field: str, go_type: str
) -> None:
    """A JSON value of the wrong type is an error with the Go field and the Go type."""
    assert said(kind, body) == INTO.format(value, field, go_type)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"metadata": {"uid": 0}}, "cannot convert int64 to types.UID"),
        ({"metadata": {"uid": True}}, "unrecognized type: string"),
        ({"metadata": {"name": 1.5}}, "unrecognized type: string"),
        ({"metadata": {"generation": 1.5}}, "cannot convert float64 to int64"),
        ({"metadata": {"generation": "x"}}, "unrecognized type: int64"),
        ({"metadata": {"labels": 0}}, "cannot restore map from int64"),
        ({"metadata": {"finalizers": "x"}}, "cannot restore slice from string"),
        ({"metadata": []}, "cannot restore struct from: slice"),
        ({"metadata": {"creationTimestamp": {}}}, "json: cannot unmarshal object into Go value of type string"),
        ({"spec": {"selector": {}, "type": 5, "externalName": 0}}, "cannot convert int64 to string"),
        ({"spec": {"ports": [{"targetPort": 1.5}]}}, "json: cannot unmarshal number 1.5 into Go value of type int32"),
        ({"spec": {"publishNotReadyAddresses": "yes"}}, "unrecognized type: bool"),
    ],
)
def test_in_memory_type_errors_have_the_converters_text(body: Any, text: str) -> None:
    """A wrong type in an in-memory object gives the converter's error for the first field in declaration order."""
    if "spec" in body and "type" in body["spec"]:
        text = "cannot convert int64 to v1.ServiceType"
    assert said("core.v1.Service", body, memory=True) == text


def test_an_invalid_time_hides_later_errors() -> None:
    """An invalid time ends the decoding at once; a value of a wrong type does not."""
    body = {"action": 5, "reason": [], "eventTime": "soon"}
    assert said("events.v1.Event", body).startswith('parsing time "soon"')
    del body["eventTime"]
    assert said("events.v1.Event", body) == INTO.format("number", "Event.action", "string")


def test_in_memory_numbers_are_truncated() -> None:
    """A number that is too large for its in-memory type is truncated, as in Go."""
    body = {"metadata": {"generation": 2.0}, "spec": {"replicas": 1 << 32 | 7}}
    created = PLANS.read("io.k8s.api.apps.v1.Deployment", body, DecodeContext(from_memory=True))
    assert (created["metadata"]["generation"], created["spec"]["replicas"]) == (2, 7)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"spec": {"a": 1}}, "spec.a"),
        ({"spec": {"overhead": {"cpu": "1"}, "volumes": [{"b": 1}]}}, "spec.volumes[0].b"),
    ],
)
@pytest.mark.parametrize("memory", [False, True])
def test_unknown_fields_are_reported_with_their_paths(body: Any, field: str, memory: bool) -> None:
    """Both decoders report unknown fields with their paths."""
    reading = DecodeContext(from_memory=memory)
    PLANS.read("io.k8s.api.core.v1.Pod", body, reading)
    assert reading.problems == [f'unknown field "{field}"']
