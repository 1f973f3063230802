"""Limit ranges: defaults, bounds, and their validation."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from server_caller import MERGE, Caller

from envtest.admission.limit_ranger import pod_problems, with_defaults
from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

RANGES = "/api/v1/namespaces/default/limitranges"
PODS = "/api/v1/namespaces/default/pods"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"

AMOUNTS = st.dictionaries(st.sampled_from(("cpu", "memory")), st.sampled_from(("1", "2", "500m", "1Gi")))
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from("abc"), "resources": st.fixed_dictionaries({}, optional={"limits": AMOUNTS})}
    )
)
LIMITS = st.lists(
    st.fixed_dictionaries(
        {"type": st.sampled_from(("Container", "Pod"))}, optional={"default": AMOUNTS, "defaultRequest": AMOUNTS}
    )
)


def pod(name: str = "p", **resources: Any) -> JsonObject:
    """A pod of one container."""
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "x", "resources": resources}]}}


@given(LIMITS, CONTAINERS, CONTAINERS)
def test_defaults_are_filled_in_once(limits: Any, containers: Any, first: Any) -> None:
    """Defaults are added once, never replace a given value, and leave the argument unchanged."""
    limit_range = {"spec": {"limits": limits}}
    given_pod = {"metadata": {"name": "p"}, "spec": {"containers": containers, "initContainers": first}}
    before = repr(given_pod)
    once = with_defaults(given_pod, limit_range)
    assert repr(given_pod) == before
    assert with_defaults(once, limit_range) is once
    for key in ("containers", "initContainers"):
        for old, new in zip(given_pod["spec"][key], once["spec"][key], strict=True):
            for name, amount in (old["resources"].get("limits") or {}).items():
                assert new["resources"]["limits"][name] == amount


def test_a_pod_is_the_sum_of_its_containers() -> None:
    """A pod's sum adds containers and sidecars; a plain init container counts alone."""
    spec = {
        "containers": [{"name": "a", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}] * 2,
        "initContainers": [
            {"name": "s", "restartPolicy": "Always", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}},
            {"name": "i", "resources": {"limits": {"cpu": "4"}, "requests": {"cpu": "4"}}},
        ],
    }
    result = list(pod_problems({"type": "Pod", "max": {"cpu": "4"}}, {"spec": spec}))
    assert result == ["maximum cpu usage per Pod is 4, but limit is 5"]


async def test_every_violated_limit_is_reported() -> None:
    """One response reports every violated limit."""
    async with Environment() as env:
        call = Caller(env)
        limit = {"type": "Pod", "maxLimitRequestRatio": {"cpu": "2"}, "min": {"memory": "1Gi"}}
        assert (await call("POST", RANGES, {"metadata": {"name": "r"}, "spec": {"limits": [limit]}})).status == 201
        answer = await call("POST", PODS, pod(limits={"cpu": "3"}, requests={"cpu": "1"}))
        assert answer.status == 403
        assert answer.json["message"] == (
            'pods "p" is forbidden: [minimum memory usage per Pod is 1Gi.  No request is specified,'
            " cpu max limit to request ratio per Pod is 2, but provided ratio is 3.000000]"
        )


async def test_claims_have_bounds_too() -> None:
    """A claim outside the limits of its LimitRange is rejected, on create and on update."""
    async with Environment() as env:
        call = Caller(env)
        limit = {"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}, "max": {"storage": "4Gi"}}
        await call("POST", RANGES, {"metadata": {"name": "r"}, "spec": {"limits": [limit]}})

        async def claim(size: str) -> Any:
            spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
            return await call("POST", CLAIMS, {"metadata": {"generateName": "c-"}, "spec": spec})

        assert (await claim("3Gi")).status == 201
        small, large = await claim("1Gi"), await claim("5Gi")
        assert small.json["message"].endswith(
            "is forbidden: minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi"
        )
        assert large.json["message"].endswith(
            "is forbidden: maximum storage usage per PersistentVolumeClaim is 4Gi, but request is 5Gi"
        )


async def test_the_annotation_names_defaulted_resources() -> None:
    """Init containers get defaults too; the annotation names what was set; a range that is gone sets nothing."""
    async with Environment() as env:
        call = Caller(env)
        limit = {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "100m"}}
        await call("POST", RANGES, {"metadata": {"name": "r"}, "spec": {"limits": [limit]}})
        body = pod("one")
        body["spec"]["initContainers"] = [{"name": "i", "image": "x", "resources": {"limits": {"cpu": "2"}}}]
        stored = (await call("POST", PODS, body)).json
        assert stored["metadata"]["annotations"] == {
            "kubernetes.io/limit-ranger": (
                "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
            )
        }
        assert stored["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "100m"}}
        assert (await call("DELETE", f"{RANGES}/r")).status == 200
        assert (await call("POST", PODS, pod("two"))).json["spec"]["containers"][0]["resources"] == {}


async def test_ranges_say_possible_things() -> None:
    """Bounds that nothing could keep are refused; a range without a name gets one."""
    async with Environment() as env:
        call = Caller(env)
        limit = {"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "500m"}}
        answer = await call("POST", RANGES, {"metadata": {"name": "r"}, "spec": {"limits": [limit]}})
        texts = [c["message"] for c in answer.json["details"]["causes"]]
        assert 'Invalid value: "2": min value 2 is greater than max value 1' in texts
        assert 'Invalid value: "500m": ratio 500m is less than 1' in texts
        twice = [{"type": "Container", "max": {"bananas": "1"}}, {"type": "Container"}]
        answer = await call("POST", RANGES, {"metadata": {"name": "r"}, "spec": {"limits": twice}})
        fields = [(c["field"], c["reason"]) for c in answer.json["details"]["causes"]]
        assert ("spec.limits[1].type", "FieldValueDuplicate") in fields
        assert ("spec.limits[0].max[bananas]", "FieldValueInvalid") in fields
        nameless = await call("POST", RANGES, {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}})
        assert nameless.status == 201
        patch = {"spec": {"limits": [{"type": "PersistentVolumeClaim"}]}}
        path = f"{RANGES}/{nameless.json['metadata']['name']}"
        answer = await call("PATCH", path, patch, content_type=MERGE)
        assert answer.json["details"]["causes"][0]["field"] == "spec.limits[0].limits"
