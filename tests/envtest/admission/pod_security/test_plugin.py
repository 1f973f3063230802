"""Pod security: nested levels, messages of violations, labels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from server_caller import MERGE, Caller

from envtest.admission.pod_security.checks import violations
from envtest.admission.pod_security.levels import LATEST, PREFIX, LevelVersion, policy_of
from envtest.admission.pod_security.plugin import pod_warnings
from envtest.environment import Environment
from opsdk.structured_merge.value import JsonObject

PROFILES = st.sampled_from(({"type": "Unconfined"}, {"type": "RuntimeDefault"}))
SECURITY = st.fixed_dictionaries(
    {},
    optional={
        "privileged": st.booleans(),
        "runAsNonRoot": st.booleans(),
        "runAsUser": st.sampled_from((0, 1)),
        "allowPrivilegeEscalation": st.booleans(),
        "procMount": st.sampled_from(("Default", "Unmasked")),
        "seccompProfile": PROFILES,
        "appArmorProfile": PROFILES,
        "seLinuxOptions": st.sampled_from(({"type": "container_t"}, {"type": "spc_t"}, {"user": "root"})),
        "windowsOptions": st.sampled_from(({"hostProcess": True}, {})),
        "capabilities": st.fixed_dictionaries(
            {},
            optional={
                "drop": st.just(["ALL"]),
                "add": st.lists(st.sampled_from(("NET_BIND_SERVICE", "CHOWN", "SYS_ADMIN")), max_size=2),
            },
        ),
    },
)
CONTAINER = st.fixed_dictionaries(
    {"name": st.sampled_from(("a", "b")), "image": st.just("x")},
    optional={"securityContext": SECURITY, "ports": st.sampled_from(([{"hostPort": 80}], [{"containerPort": 1}]))},
)
SPECS = st.fixed_dictionaries(
    {"containers": st.lists(CONTAINER, min_size=1, max_size=2)},
    optional={
        "initContainers": st.lists(CONTAINER, max_size=1),
        "hostPID": st.booleans(),
        "securityContext": SECURITY,
        "volumes": st.sampled_from(
            ([{"name": "v", "hostPath": {}}], [{"name": "v", "emptyDir": {}}], [{"name": "v", "nfs": {}}])
        ),
    },
)
GOOD: JsonObject = {
    "allowPrivilegeEscalation": False,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@given(SPECS, st.sampled_from((0, 8, 18, 19, 22, 25, 31, 34, LATEST)))
def test_each_level_contains_the_stricter_ones(spec: JsonObject, minor: int) -> None:
    """A pod that restricted allows is allowed by baseline too, and privileged allows every pod."""
    assert not violations(LevelVersion("privileged", minor), {}, spec)
    if not violations(LevelVersion("restricted", minor), {}, spec):
        assert not violations(LevelVersion("baseline", minor), {}, spec)


@given(SPECS)
def test_a_pod_is_as_bad_as_its_containers(spec: JsonObject) -> None:
    """Removing containers from a pod never adds a violation."""
    few = {**spec, "containers": spec["containers"][:1]}
    whole = {v.reason for v in violations(LevelVersion("restricted"), {}, spec)}
    assert {v.reason for v in violations(LevelVersion("restricted"), {}, few)} <= whole


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"hostNetwork": True, "hostIPC": True}, "host namespaces (hostNetwork=true, hostIPC=true)"),
        ({"volumes": [{"name": "v", "hostPath": {}}]}, 'hostPath volumes (volume "v")'),
        (
            {"securityContext": {"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}]}},
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            {"securityContext": {"seLinuxOptions": {"type": "x", "role": "r"}}},
            'seLinuxOptions (pod set forbidden securityContext.seLinuxOptions: type "x"; role may not be set)',
        ),
        (
            {"containers": [{"name": n, "ports": [{"hostPort": p}]} for n, p in (("a", 80), ("b", 443))]},
            'hostPort (containers "a", "b" use hostPorts 443, 80)',
        ),
        (
            {"containers": [{"name": "a", "securityContext": {"capabilities": {"add": ["SYS_ADMIN", "CHOWN"]}}}]},
            'non-default capabilities (container "a" must not include "SYS_ADMIN" in securityContext.capabilities.add)',
        ),
        (
            {
                "securityContext": {"seccompProfile": {"type": "Unconfined"}},
                "containers": [{"name": "a", "securityContext": {"seccompProfile": {"type": "Unconfined"}}}],
            },
            'seccompProfile (pod and container "a" must not set securityContext.seccompProfile.type to "Unconfined")',
        ),
    ],
)
def test_baseline_violations_name_the_offending_fields(spec: JsonObject, text: str) -> None:
    """Each violation of the baseline names the check and the offending fields."""
    assert [str(v) for v in violations(LevelVersion("baseline"), {}, spec)] == [text]


def test_sentences_of_the_restricted_level() -> None:
    """If a restricted and a baseline check cover the same field, only the restricted violation is reported."""
    spec = {
        "volumes": [{"name": "v", "hostPath": {}}, {"name": "w", "nfs": {}}],
        "containers": [{"name": "a", "securityContext": {**GOOD, "runAsUser": 0, "capabilities": {"add": ["CHOWN"]}}}],
    }
    assert [str(v) for v in violations(LevelVersion("restricted"), {}, spec)] == [
        (
            'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"];'
            ' container "a" must not include "CHOWN" in securityContext.capabilities.add)'
        ),
        'restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "nfs")',
        'runAsUser=0 (container "a" must not set runAsUser=0)',
    ]


def test_warn_defaults_to_enforce_and_bad_labels_are_errors() -> None:
    """The level of warn defaults to that of enforce; each invalid label has its own error."""
    policy, wrong = policy_of({f"{PREFIX}enforce": "baseline", f"{PREFIX}enforce-version": "v1.24"})
    assert (str(policy.enforce), str(policy.warn), str(policy.audit)) == (
        "baseline:v1.24",
        "baseline:v1.24",
        "privileged:latest",
    )
    assert not wrong
    _, wrong = policy_of({f"{PREFIX}warn": "odd", f"{PREFIX}audit-version": "v2.0"})
    assert [(c.field, c.message) for c in wrong] == [
        (f"metadata.labels[{PREFIX}audit-version]", 'Invalid value: "v2.0": must be "latest" or "v1.x"'),
        (f"metadata.labels[{PREFIX}warn]", 'Invalid value: "odd": must be one of privileged, baseline, restricted'),
    ]


def test_pods_that_break_the_same_are_reported_together() -> None:
    """Pods with equal violations are reported as one, with the name of the first pod."""
    pods = [{"metadata": {"name": n}, "spec": {"hostPID": True}} for n in "abc"]
    pods.append({"metadata": {"name": "d"}, "spec": {"hostIPC": True, "hostPID": True, "volumes": []}})
    pods.append({"metadata": {"name": "e"}, "spec": {"volumes": [{"name": "v", "hostPath": {}}]}})
    assert list(pod_warnings("ns", LevelVersion("baseline"), pods)) == [
        'existing pods in namespace "ns" violate the new PodSecurity enforce level "baseline:latest"',
        "a (and 3 other pods): host namespaces",
        "e: hostPath volumes",
    ]


async def test_pods_and_what_makes_them() -> None:
    """Pods are refused, templates are warned about, updates that matter are judged, new namespaces are checked."""
    async with Environment() as env:
        call = Caller(env)
        labels = {f"{PREFIX}enforce": "restricted"}
        bad = {"metadata": {"name": "x", "labels": {f"{PREFIX}enforce": "odd"}}}
        assert (await call("POST", "/api/v1/namespaces", bad)).status == 422
        response = await call("POST", "/api/v1/namespaces", {"metadata": {"name": "tight", "labels": labels}})
        assert response.status == 201
        template = {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "x"}], "hostPID": True},
        }
        job = {
            "metadata": {"name": "j"},
            "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}},
        }
        template["spec"]["restartPolicy"] = "Never"  # type: ignore[index] - a tree
        answer = await call("POST", "/apis/batch/v1/namespaces/tight/cronjobs", job)
        assert answer.status == 201
        assert "would violate PodSecurity" in answer.headers["warning"]
        pods = "/api/v1/namespaces/tight/pods"
        answer = await call("POST", pods, {**template, "metadata": {"name": "p"}})
        assert (answer.status, answer.json["reason"]) == (403, "Forbidden")
        good = {"containers": [{"name": "c", "image": "x", "securityContext": GOOD}]}
        assert (await call("POST", pods, {"metadata": {"name": "p"}, "spec": good})).status == 201
        answer = await call("PATCH", f"{pods}/p", {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
        assert "warning" not in answer.headers
        debug = {"spec": {"ephemeralContainers": [{"name": "d", "image": "y"}]}}
        answer = await call("PATCH", f"{pods}/p/ephemeralcontainers", debug, content_type=MERGE)
        assert answer.status == 403


async def test_audit_annotations_name_policy_and_violations() -> None:
    """Audit annotations have the enforced policy, and the violations of the audit level by pod or template."""
    async with Environment() as env:
        call = Caller(env)
        labels = {f"{PREFIX}enforce": "baseline", f"{PREFIX}enforce-version": "v1.30", f"{PREFIX}audit": "restricted"}
        await call("POST", "/api/v1/namespaces", {"metadata": {"name": "heard", "labels": labels}})
        spec = {"containers": [{"name": "c", "image": "x"}]}

        async def said(path: str, obj: JsonObject) -> dict[str, str]:
            assert (await call("POST", path, obj)).status == 201
            return dict(list(env.audit)[-1].annotations)

        result = await said("/api/v1/namespaces/heard/pods", {"metadata": {"name": "p"}, "spec": spec})
        assert result[f"{PREFIX}enforce-policy"] == "baseline:v1.30"
        assert result[f"{PREFIX}audit-violations"].startswith('would violate PodSecurity "restricted:latest": ')
        template = {"metadata": {"name": "t"}, "template": {"spec": spec}}
        result = await said("/api/v1/namespaces/heard/podtemplates", template)
        assert set(result) & {f"{PREFIX}enforce-policy", f"{PREFIX}audit-violations"} == {f"{PREFIX}audit-violations"}
        result = await said("/api/v1/namespaces/default/pods", {"metadata": {"name": "p"}, "spec": spec})
        assert result[f"{PREFIX}enforce-policy"] == "privileged:latest"
        assert f"{PREFIX}audit-violations" not in result
