"""Updates of pods: spec, status, resize and derived fields."""

from __future__ import annotations

from typing import Any

import pytest

from envtest.groups.core.pod_preparation import merge_label_keys, sync_profiles
from envtest.groups.core.qos import qos_class
from envtest.groups.core.validation.pod_resize import refused, resized, validate_resize
from envtest.groups.core.validation.pod_status import validate_pod_status
from envtest.groups.core.validation.pod_update import validate_ephemeral_update, validate_pod_update
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject
from tests.envtest.groups.kindkit import changed, wrong

POD: JsonObject = {
    "metadata": {},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]},
    "status": {},
}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
MIRROR = {"annotations": {"kubernetes.io/config.mirror": "x"}}


def _told(causes: Any) -> list[str]:
    result: list[Cause] = list(causes)
    return [f"{c.field}: {c.message}" for c in result]


# ------------------------------------------------------------------ the spec
GATED: JsonObject = {**POD["spec"], "schedulingGates": [{"name": "g"}], "nodeSelector": {"a": "b"}}
NARROWED = [
    ("nodeSelector", {"a": "b", "c": "d"}, []),
    ("nodeSelector", {"a": "x"},
     [('spec.nodeSelector: Invalid value: {"a":"x"}: only additions to spec.nodeSelector are allowed (no mutations or'
      " deletions)")]),
    ("affinity", {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}, []),
    ("schedulingGates", [{"name": "h"}],
     ["spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'h'"]),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "found"), NARROWED)
def test_pods_behind_a_gate(key: str, value: Any, found: list[str]) -> None:
    """With scheduling gates, node selection can become narrower but not wider."""
    assert _told(validate_pod_update({**GATED, key: value}, GATED)) == found


def test_terms_of_pods_behind_a_gate() -> None:
    """With scheduling gates, a term may get more conditions at its end; terms cannot be added or removed."""

    def with_terms(*terms: JsonObject) -> JsonObject:
        return {**GATED, "affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}

    one, two = ({"key": k, "operator": "Exists"} for k in "ab")
    old = with_terms({"matchExpressions": [one]})
    assert not _told(validate_pod_update(with_terms({"matchExpressions": [one, two]}), old))
    [cause] = validate_pod_update(with_terms({"matchExpressions": [two]}), old)
    assert cause.field.endswith("nodeSelectorTerms[0]")
    [cause] = validate_pod_update(with_terms({"matchExpressions": [one]}, {}), old)
    assert cause.message.endswith("no additions/deletions to non-empty NodeSelectorTerms list are allowed")


def test_the_node_selector_is_fixed_without_gates() -> None:
    """The node selector of a pod without scheduling gates is immutable."""
    spec = {**POD["spec"], "nodeSelector": {"a": "b"}}
    [cause] = validate_pod_update({**spec, "nodeSelector": {"a": "b", "c": "d"}}, spec)
    assert "pod updates may not change fields other than" in cause.message


def test_annotations_that_stay() -> None:
    """The mirror annotation is immutable, and mirror pods have a node."""
    plain = {"spec": POD["spec"]}
    key = "metadata.annotations[kubernetes.io/config.mirror]"
    needs = f'{key}: Invalid value: "x": must set spec.nodeName if mirror pod annotation is set'
    assert wrong("/pods", {**plain, "metadata": MIRROR}) == [needs]
    assert wrong("/pods", {**plain, "metadata": MIRROR}, plain) == [
        needs, f"{key}: Forbidden: may not add mirror pod annotation", needs,
    ]  # fmt: skip
    assert wrong("/pods", plain, {**plain, "metadata": MIRROR}) == [
        f"{key}: Forbidden: may not remove or update mirror pod annotation"
    ]


NOTES = [
    ("controller.kubernetes.io/pod-deletion-cost", "+1",
     '[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "+1": must be a 32bit integer'),
    ("seccomp.security.alpha.kubernetes.io/pod", "odd",
     '.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "odd": must be a valid seccomp profile'),
    ("container.apparmor.security.beta.kubernetes.io/c", "odd",
     ('[container.apparmor.security.beta.kubernetes.io/c]: Invalid value: "odd": invalid AppArmor profile name:'
      ' "odd"')),
    ("container.apparmor.security.beta.kubernetes.io/d", "unconfined",
     '[container.apparmor.security.beta.kubernetes.io/d]: Invalid value: "d": container not found'),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "found"), NOTES)
def test_known_annotations_are_validated(key: str, value: str, found: str) -> None:
    """Annotations with a meaning are validated, in templates too."""
    whole = {"metadata": {"annotations": {key: value}}, "spec": POD["spec"]}
    assert wrong("/pods", whole) == [f"metadata.annotations{found}"]
    assert wrong("/podtemplates", {"template": whole}) == [f"template.annotations{found}"]


# ------------------------------------------------------------------ debugging
def test_mirror_pods_have_no_ephemeral_containers() -> None:
    """A mirror pod cannot get ephemeral containers."""
    assert _told(validate_ephemeral_update(POD, {**POD, "metadata": MIRROR})) == [
        "[]: Forbidden: static pods do not support ephemeral containers"
    ]


# ------------------------------------------------------------------ status
ENDED = {"name": "c", "state": {"terminated": {"exitCode": 1}}}
AGAIN = {"name": "c", "state": {"running": {}}}
STATUS = [
    ({}, {"conditions": [{"type": "a b"}]}, "metadata.conditions[0].Type: Invalid value"),
    ({"containerStatuses": [ENDED]}, {"containerStatuses": [AGAIN]},
     "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"),
    ({"ephemeralContainerStatuses": [ENDED]}, {"ephemeralContainerStatuses": [AGAIN]},
     "status.ephemeralContainerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"),
    ({}, {"podIPs": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}]},
     ('status.podIPs: Invalid value: [{"IP":"1.2.3.4"},{"IP":"1.2.3.5"}]: may specify no more than one IP for each IP'
      " family")),
    ({}, {"hostIP": "1.2.3.4", "hostIPs": [{"ip": "1.2.3.5"}]},
     'status.hostIPs[0].ip: Invalid value: "1.2.3.5": must be equal to `hostIP`'),
    ({}, {"resourceClaimStatuses": [{"name": "x"}]},
     ('status.resourceClaimStatuses[0].name: Invalid value: "x": must match the name of an entry in'
      " `spec.resourceClaims`")),
    ({"qosClass": "Burstable"}, {"qosClass": "Guaranteed"},
     'status.qosClass: Invalid value: "Guaranteed": field is immutable'),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "found"), STATUS)
def test_terminated_containers_and_ip_families_are_fixed(old: JsonObject, new: JsonObject, found: str) -> None:
    """A terminated container stays terminated, and a pod has at most one IP of each family."""
    errors = _told(validate_pod_status({**POD, "status": new}, {**POD, "status": old}))
    assert errors
    assert errors[0].startswith(found)
    assert not _told(validate_pod_status({**POD, "status": old}, {**POD, "status": old}))


def test_a_pod_may_have_one_ip_of_each_family() -> None:
    """A pod may have one IP of each family."""
    status = {"podIPs": [{"ip": "1.2.3.4"}, {"ip": "fd00::1"}]}
    assert not _told(validate_pod_status({**POD, "status": status}, POD))


# ------------------------------------------------------------------ more and less
BURSTABLE: JsonObject = changed(POD, "spec.containers.0.resources", {"requests": {"cpu": "1", "memory": "1Gi"}})


@pytest.mark.parametrize(
    ("requests", "found"),
    [
        ({"cpu": "2", "memory": "1Gi"}, []),
        ({"cpu": "2"}, ["spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"]),
        ({"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1"},
         ["spec: Forbidden: only cpu and memory resources are mutable"]),
    ],
)  # fmt: skip
def test_resize_changes_only_cpu_and_memory(requests: JsonObject, found: list[str]) -> None:
    """A resize changes CPU and memory, removes no request, and adds no other resource."""
    new = changed(BURSTABLE, "spec.containers.0.resources", {"requests": requests})
    assert _told(validate_resize(new, BURSTABLE)) == found


def test_resizing_takes_over_nothing_else() -> None:
    """A resize changes no image, and neither adds, removes nor renames containers."""
    more = {"requests": {"cpu": "2", "memory": "1Gi"}}
    old = BURSTABLE["spec"]
    spec = {"containers": [{"name": "c", "image": "j", "resources": more}]}
    assert resized(spec, old) == {"containers": [{**old["containers"][0], "resources": more}]}
    two = changed(BURSTABLE, "spec.containers", [*spec["containers"], {"name": "d", "image": "i"}])
    assert _told(validate_resize(two, BURSTABLE)) == [
        "spec.containers: Forbidden: containers may not be added or removed on resize"
    ]
    renamed = changed(BURSTABLE, "spec.containers.0.name", "d")
    assert _told(validate_resize(renamed, BURSTABLE)) == [
        "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"
    ]


def test_pods_that_cannot_be_resized() -> None:
    """Mirror pods, Windows pods, and pods whose QoS class would change cannot be resized."""
    assert refused({**POD, "metadata": MIRROR}) == "static pods cannot be resized"
    assert refused(changed(POD, "spec.os", {"name": "windows"})) == "windows pods cannot be resized"
    assert not refused(POD)
    [text] = _told(validate_resize(BURSTABLE, {**POD, "status": {"qosClass": "BestEffort"}}))
    assert text == 'spec: Invalid value: "BestEffort": Pod QOS Class may not change as a result of resizing'


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"containers": [{}]}, "BestEffort"),
        ({"containers": [{"resources": {"requests": {"cpu": "1"}}}]}, "Burstable"),
        ({"containers": [{}], "resources": {"limits": {"cpu": "1", "memory": "1"},
                                            "requests": {"cpu": "1", "memory": "1"}}}, "Guaranteed"),
        ({"containers": [{}], "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}, "Burstable"),
    ],
)  # fmt: skip
def test_pod_level_resources_decide_the_qos_class(spec: JsonObject, found: str) -> None:
    """The pod's own resources decide the QoS class before those of its containers."""
    assert qos_class(spec) == found


# ------------------------------------------------------------------ fields that follow from others
def test_keys_of_labels_become_requirements() -> None:
    """``matchLabelKeys`` become requirements with the pod's values; missing labels are ignored."""
    term: JsonObject = {
        "topologyKey": "z",
        "labelSelector": {},
        "matchLabelKeys": ["a", "n"],
        "mismatchLabelKeys": ["b"],
    }
    spread: JsonObject = {"topologyKey": "z", "labelSelector": {"matchLabels": {"x": "y"}}, "matchLabelKeys": ["a"]}
    affinity = {"podAffinity": {REQUIRED: [term]}}
    pod = {
        "metadata": {"labels": {"a": "1", "b": "2"}},
        "spec": {"affinity": affinity, "topologySpreadConstraints": [spread]},
    }
    merge_label_keys(pod)
    match, mismatch = ({"key": k, "operator": o, "values": [v]} for k, o, v in (("a", "In", "1"), ("b", "NotIn", "2")))
    assert term["labelSelector"] == {"matchExpressions": [match, mismatch]}
    assert spread["labelSelector"] == {"matchLabels": {"x": "y"}, "matchExpressions": [match]}


KEY = "container.apparmor.security.beta.kubernetes.io/c"


def test_profiles_do_not_become_annotations() -> None:
    """Seccomp and AppArmor profiles are not copied to annotations."""
    pod = changed(POD, "spec.containers.0.securityContext", {"appArmorProfile": {"type": "RuntimeDefault"}})
    assert not list(sync_profiles(pod))
    assert "annotations" not in pod["metadata"]


def test_profiles_of_annotations_become_fields() -> None:
    """Profile annotations become fields with a warning, but not on Windows."""
    pod = changed(POD, "metadata", {"annotations": {KEY: "localhost/p"}})
    windows = changed(pod, "spec.os", {"name": "windows"})
    text = f'metadata.annotations[{KEY}]: deprecated since v1.30; use the "appArmorProfile" field instead'
    assert list(sync_profiles(pod)) == [text]
    profile = {"type": "Localhost", "localhostProfile": "p"}
    assert pod["spec"]["containers"][0]["securityContext"] == {"appArmorProfile": profile}
    assert not list(sync_profiles(windows))
    assert "securityContext" not in windows["spec"]["containers"][0]
    same = changed(POD, "metadata", {"annotations": {KEY: "unconfined"}})
    same["spec"] = {**same["spec"], "securityContext": {"appArmorProfile": {"type": "Unconfined"}}}
    assert not list(sync_profiles(same))
