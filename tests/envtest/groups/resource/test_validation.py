"""Claims for devices, classes and slices."""

from __future__ import annotations

from typing import Any

import pytest
from server_caller import MERGE, Caller

from envtest.environment import Environment
from envtest.groups.resource.validation import validate_claim_status
from opsdk.structured_merge.value import JsonObject
from tests.envtest.groups.kindkit import changed, read, wrong

CLAIMS, CLASSES = "resource.k8s.io/resourceclaims", "resource.k8s.io/deviceclasses"
SLICES, TEMPLATES = "resource.k8s.io/resourceslices", "resource.k8s.io/resourceclaimtemplates"
CLAIM = {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}}
ONE = "exactly one of `exactly` or `firstAvailable` is required"


def test_a_request_defaults_to_one_device() -> None:
    """A device request defaults to ExactCount with count 1."""
    [request] = read(CLAIMS, CLAIM)["spec"]["devices"]["requests"]
    assert request["exactly"] == {"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1}


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("requests.0.name", "r", []),
        ("requests.0.name", "", ["requests[0].name: Required value"]),
        ("requests.0.exactly", None, [f"requests[0]: Required value: {ONE}"]),
        (
            "requests.0.firstAvailable",
            [{"name": "s", "deviceClassName": "c"}],
            [f"requests[0]: Invalid value: null: {ONE}, but multiple fields are set"],
        ),
        ("requests.0.exactly.deviceClassName", "", ["requests[0].exactly.deviceClassName: Required value"]),
        (
            "requests.0.exactly.count",
            -1,
            ["requests[0].exactly.count: Invalid value: -1: must be greater than zero"],
        ),
        (
            "requests.0.exactly.allocationMode",
            "Some",
            ['requests[0].exactly.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"'],
        ),
        (
            "requests.0.exactly",
            {"deviceClassName": "c", "allocationMode": "All", "count": 2},
            ["requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'"],
        ),
        ("requests.0.exactly.selectors", [{}], ["requests[0].exactly.selectors[0].cel: Required value"]),
        (
            "requests.0.exactly.selectors",
            [{"cel": {"expression": ""}}],
            ["requests[0].exactly.selectors[0].cel.expression: Required value"],
        ),
        ("config", [{}], ["config[0].opaque: Required value"]),
        (
            "config",
            [{"requests": ["x"], "opaque": {"driver": "d", "parameters": {}}}],
            [
                (
                    'config[0].requests[0]: Invalid value: "x": must be the name of a request in the claim or the name'
                    " of a request and a subrequest separated by '/'"
                )
            ],
        ),
        ("config", [{"opaque": {"driver": "d"}}], ["config[0].opaque.parameters: Required value"]),
        ("config", [{"opaque": {"parameters": {}}}], ["config[0].opaque.driver: Required value"]),
        ("constraints", [{"requests": ["r"]}], ["constraints[0].matchAttribute: Required value"]),
        (
            "constraints",
            [{"matchAttribute": "a"}],
            ['constraints[0].matchAttribute: Invalid value: "a": must include a domain'],
        ),
    ],
)
def test_resource_claim_errors_name_the_field(path: str, value: Any, found: list[str]) -> None:
    """Each invalid request, constraint or configuration is an error, also in claim templates."""
    tree = changed(CLAIM, f"spec.devices.{path}", value)
    assert wrong(CLAIMS, tree) == [f"spec.devices.{text}" for text in found]
    assert wrong(TEMPLATES, {"spec": tree}) == [f"spec.spec.devices.{text}" for text in found]


def test_request_names_are_unique_and_limited() -> None:
    """Request names are unique, and a claim has at most 32 requests."""
    [request] = CLAIM["spec"]["devices"]["requests"]
    twice = {"spec": {"devices": {"requests": [request, request]}}}
    assert wrong(CLAIMS, twice) == ['spec.devices.requests[1].name: Duplicate value: "r"']
    many = {"spec": {"devices": {"requests": [{**request, "name": f"r{n}"} for n in range(33)]}}}
    assert wrong(CLAIMS, many) == ["spec.devices.requests: Too many: 33: must have at most 32 items"]


@pytest.mark.parametrize("kind", [CLAIMS, TEMPLATES])
def test_what_is_wanted_stays(kind: str) -> None:
    """The spec of a resource claim is immutable."""
    tree = CLAIM if kind == CLAIMS else {"spec": CLAIM}
    assert wrong(kind, tree, tree) == []
    other = changed(tree, f"{'spec.' if kind == TEMPLATES else ''}spec.devices.requests.0.name", "s")
    [cause] = wrong(kind, other, tree)
    assert cause.startswith("spec: Invalid value: ")
    assert cause.endswith("field is immutable")


def test_device_class_errors_name_the_field() -> None:
    """Each invalid selector or configuration of a DeviceClass is an error."""
    assert wrong(CLASSES, {"spec": {"selectors": [{"cel": {"expression": "true"}}]}}) == []
    assert wrong(CLASSES, {"spec": {"selectors": [{}]}}) == ["spec.selectors[0].cel: Required value"]
    bad = {"spec": {"config": [{"opaque": {"driver": "BAD!", "parameters": [1]}}]}}
    assert [text.partition(":")[0] for text in wrong(CLASSES, bad)] == [
        "spec.config[0].opaque.driver",
        "spec.config[0].opaque.parameters",
    ]


SLICE = {
    "spec": {
        "driver": "d.example.com",
        "nodeName": "n",
        "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "dev", "attributes": {"a": {"int": 1}}, "capacity": {"m": {"value": "1Gi"}}}],
    }
}
PLACE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("driver", "d.example.com", []),
        ("driver", "", ["driver: Required value"]),
        ("pool.name", "", ["pool.name: Required value"]),
        ("pool.resourceSliceCount", 0, ["pool.resourceSliceCount: Invalid value: 0: must be greater than zero"]),
        ("pool.generation", -1, ["pool.generation: Invalid value: -1: must be greater than or equal to zero"]),
        ("nodeName", None, [f": Required value: {PLACE}"]),
        ("allNodes", True, [f": Invalid value: null: {PLACE}, but multiple fields are set"]),
        ("devices.0.name", "", ["devices[0].name: Required value"]),
        (
            "devices.0.attributes",
            {"a": {}},
            ["devices[0].attributes[a]: Required value: exactly one value must be specified"],
        ),
        ("devices.0.attributes", {"a": {"string": "x" * 65}},
         ["devices[0].attributes[a].string: Too long: may not be more than 64 bytes"]),
    ],
)  # fmt: skip
def test_resource_slice_errors_name_the_field(path: str, value: Any, found: list[str]) -> None:
    """Each invalid driver, pool, node or device of a ResourceSlice is an error."""
    causes = [
        text.removeprefix("spec").removeprefix(".") for text in wrong(SLICES, changed(SLICE, f"spec.{path}", value))
    ]
    assert causes == found


def test_driver_pool_and_node_of_a_slice_are_immutable() -> None:
    """Driver, pool and node of a ResourceSlice are immutable."""
    for path in ("driver", "nodeName", "pool.name"):
        other = changed(SLICE, f"spec.{path}", "x")
        assert wrong(SLICES, other, SLICE) == [f'spec.{path}: Invalid value: "x": field is immutable']


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("device.driver == 'a.b'", ""),
        ("device.attributes['a.b'].model == 'x' && device.capacity['a.b'].memory.isGreaterThan(quantity('1Gi'))", ""),
        ("device.attributes['a.b'].healthy", ""),
        ("semver(device.attributes['a.b'].version).isLessThan(semver('2.0.0'))", ""),
        ("1", "must evaluate to bool or the unknown type, not int"),
        ("device.colour", "compilation failed: ERROR: <input>:1:7: undefined field 'colour'"),
        ("device.driver ==", "compilation failed: ERROR: <input>:1:17: Syntax error"),
        ("object.x", "compilation failed: ERROR: <input>:1:1: undeclared reference to 'object'"),
    ],
)
def test_device_selectors_are_boolean_cel(expression: str, found: str) -> None:
    """A device selector is a CEL expression over driver, attributes and capacity that returns a boolean."""
    texts = wrong("resource.k8s.io/deviceclasses", {"spec": {"selectors": [{"cel": {"expression": expression}}]}})
    if not found:
        assert texts == []
        return
    [text] = texts
    assert text.startswith(f'spec.selectors[0].cel.expression: Invalid value: "{expression}": {found}')


RESULT = {"request": "r", "driver": "a.b", "pool": "p", "device": "d"}
FOR = {"resource": "pods", "name": "p", "uid": "u"}
ALLOCATED = {"allocation": {"devices": {"results": [RESULT]}}}
DONE = {"type": "Ready", "status": "True", "reason": "Done", "lastTransitionTime": "2026-01-01T00:00:00Z"}
KNOWN = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"


@pytest.mark.parametrize(
    ("status", "found"),
    [
        (ALLOCATED, []),
        ({**ALLOCATED, "reservedFor": [FOR]}, []),
        ({**ALLOCATED, "devices": [{**RESULT, "conditions": [DONE]}]}, []),
        ({"reservedFor": [FOR]}, ["reservedFor: Forbidden: may not be specified when `allocated` is not set"]),
        ({**ALLOCATED, "reservedFor": [FOR, FOR]}, ['reservedFor[1].uid: Duplicate value: "u"']),
        (
            {**ALLOCATED, "reservedFor": [{}]},
            [f"reservedFor[0].{key}: Required value" for key in ("resource", "name", "uid")],
        ),
        (
            {"allocation": {"devices": {"results": [{**RESULT, "request": "x", "pool": ""}]}}},
            [
                f'allocation.devices.results[0].request: Invalid value: "x": {KNOWN}',
                "allocation.devices.results[0].pool: Required value",
            ],
        ),
        (
            {"allocation": {"devices": {"config": [{"source": "Sky"}]}}},
            [
                (
                    'allocation.devices.config[0].source: Unsupported value: "Sky": supported values: "FromClaim",'
                    ' "FromClass"'
                ),
                "allocation.devices.config[0].opaque: Required value",
            ],
        ),
        (
            {**ALLOCATED, "devices": [{**RESULT, "device": "e"}]},
            [
                (
                    'devices[0]: Invalid value: {"Driver":"a.b","Pool":"p","Device":"e","ShareID":""}: must be an'
                    " allocated device in the claim"
                )
            ],
        ),
    ],
)
def test_what_is_said_of_claims(status: JsonObject, found: list[str]) -> None:
    """A claim's status has devices for its requests, and each consumer once."""
    old = read(CLAIMS, CLAIM)
    causes = validate_claim_status({**read(CLAIMS, CLAIM), "status": status}, old)
    assert [f"{cause.field}: {cause.message}" for cause in causes] == [f"status.{text}" for text in found]


def test_an_allocation_is_immutable_but_removable() -> None:
    """An allocation may be removed but not changed; a deleted claim accepts no new consumers."""
    old = {**read(CLAIMS, CLAIM), "status": ALLOCATED}
    other = {"allocation": {"devices": {"results": [{**RESULT, "device": "e"}]}}}
    [cause] = validate_claim_status({**old, "status": other}, old)
    assert (cause.field, cause.message.rpartition(": ")[2]) == ("status.allocation", "field is immutable")
    assert list(validate_claim_status({**old, "status": {}}, old)) == []
    going = {**old, "metadata": {**old["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    [cause] = validate_claim_status({**going, "status": {**ALLOCATED, "reservedFor": [FOR]}}, old)
    assert cause.message.startswith("Forbidden: new entries may not be added while")


async def test_admin_access_needs_a_namespace_label() -> None:
    """A request with admin access needs the label of its namespace."""
    wish = {"name": "r", "exactly": {"deviceClassName": "c", "adminAccess": True}}
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [wish]}}}
    template = {"metadata": {"name": "t"}, "spec": {"spec": claim["spec"]}}
    async with Environment() as env:
        call, url = Caller(env), "/apis/resource.k8s.io/v1/namespaces/default"
        for resource, tree in (("resourceclaims", claim), ("resourceclaimtemplates", template)):
            refused = await call("POST", f"{url}/{resource}", tree)
            assert refused.status == 422
            [cause] = refused.json["details"]["causes"]
            assert cause["field"] == "spec.devices.requests[0].adminAccess"
            assert cause["message"].startswith(
                "Forbidden: admin access to devices requires the `resource.kubernetes.io/"
            )
        labels = {"resource.kubernetes.io/admin-access": "true"}
        await call("PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": labels}}, content_type=MERGE)
        assert (await call("POST", f"{url}/resourceclaims", claim)).status == 201
