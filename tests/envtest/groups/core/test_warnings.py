"""Warnings about valid objects of core kinds."""

from __future__ import annotations

from typing import Any

import pytest

from opsdk.structured_merge.value import JsonObject
from tests.envtest.groups.kindkit import changed, warned

POD: JsonObject = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
DEPLOYMENT = {
    "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, **POD}}
}
AFFINITY = "spec.affinity"
REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
OLD_OS = 'deprecated since v1.14; use "kubernetes.io/os" instead'
NULL = "a null labelSelector results in matching no pod"
TERM = {"matchExpressions": [{"key": "beta.kubernetes.io/os", "operator": "Exists"}]}
HIDES = 'hides previous definition of "X", which may be dropped when using apply'

CASES = [
    ("spec.nodeSelector", {"beta.kubernetes.io/os": "linux"}, [f"spec.nodeSelector[beta.kubernetes.io/os]: {OLD_OS}"]),
    (
        f"{AFFINITY}.nodeAffinity",
        {REQUIRED: {"nodeSelectorTerms": [TERM]}, PREFERRED: [{"weight": 1, "preference": TERM}]},
        [
            (
                f"{AFFINITY}.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].key:"
                f" beta.kubernetes.io/os is {OLD_OS}"
            ),
            (
                f"{AFFINITY}.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].key: beta.kubernetes.io/os is"
                f" {OLD_OS}"
            ),
        ],
    ),
    (
        "spec.topologySpreadConstraints",
        [{"maxSkew": 1, "topologyKey": "failure-domain.beta.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}],
        [
            (
                "spec.topologySpreadConstraints[0].topologyKey: failure-domain.beta.kubernetes.io/zone is deprecated"
                ' since v1.17; use "topology.kubernetes.io/zone" instead'
            ),
            f"spec.topologySpreadConstraints[0].labelSelector: {NULL}",
        ],
    ),
    (
        "metadata.annotations",
        {
            "scheduler.alpha.kubernetes.io/critical-pod": "",
            "seccomp.security.alpha.kubernetes.io/pod": "runtime/default",
            "container.seccomp.security.alpha.kubernetes.io/c": "runtime/default",
        },
        [
            (
                "metadata.annotations[scheduler.alpha.kubernetes.io/critical-pod]: non-functional in v1.16+; use the"
                ' "priorityClassName" field instead'
            ),
            (
                "metadata.annotations[seccomp.security.alpha.kubernetes.io/pod]: non-functional in v1.27+; use the"
                ' "seccompProfile" field instead'
            ),
            (
                "metadata.annotations[container.seccomp.security.alpha.kubernetes.io/c]: non-functional in v1.27+; use"
                ' the "seccompProfile" field instead'
            ),
        ],
    ),
    (
        "spec.volumes",
        [{"name": "v", "gitRepo": {"repository": "r"}}, {"name": "w", "rbd": {"monitors": ["m"], "image": "i"}}],
        [
            "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
            "spec.volumes[1].rbd: deprecated in v1.28, non-functional in v1.31+",
        ],
    ),
    (
        "spec.hostAliases",
        [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}, {"ip": "2001:DB8::1"}],
        [
            'spec.hostAliases[1].ip: duplicate ip "10.0.0.1"',
            'spec.hostAliases[2].ip: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")',
        ],
    ),
    (
        "spec.imagePullSecrets",
        [{"name": "a"}, {"name": "a"}, {"name": ""}],
        [
            'spec.imagePullSecrets[1].name: duplicate name "a"',
            'spec.imagePullSecrets[2].name: invalid empty name ""',
        ],
    ),
    (
        "spec.containers.0.resources",
        {"limits": {"memory": "500m"}, "requests": {"ephemeral-storage": "1500m", "memory": "1"}},
        [
            'spec.containers[0].resources.limits[memory]: fractional byte value "500m" is invalid, must be an integer',
            (
                'spec.containers[0].resources.requests[ephemeral-storage]: fractional byte value "1500m" is invalid,'
                " must be an integer"
            ),
        ],
    ),
    ("spec.containers.0.env", [{"name": "X", "value": "1"}, {"name": "X", "value": "$(X)2"}], []),
    (
        "spec.containers.0.env",
        [{"name": "X", "value": "1"}, {"name": "X", "value": "2"}, {"name": "X", "value": "$(X)"}],
        [f"spec.containers[0].env[1]: {HIDES}", f"spec.containers[0].env[2]: {HIDES}"],
    ),
    (
        "spec.containers.0.ports",
        [
            {"containerPort": 80},
            {"containerPort": 80},
            {"containerPort": 80, "hostPort": 80},
            {"containerPort": 80, "protocol": "UDP"},
        ],
        [
            "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
            "spec.containers[0].ports[2]: overlapping port definition with spec.containers[0].ports[0]",
            "spec.containers[0].ports[2]: overlapping port definition with spec.containers[0].ports[1]",
        ],
    ),
    (
        "spec.containers.0.ports",
        [{"containerPort": 80, "hostPort": 80}, {"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"}],
        ["spec.containers[0].ports[1]: dangerously ambiguous port definition with spec.containers[0].ports[0]"],
    ),
    (
        "spec.containers.0.ports",
        [{"containerPort": 80, "hostIP": "10.0.0.1"}],
        [
            (
                "spec.containers[0].ports[0]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:80"
                " Protocol:TCP HostIP:10.0.0.1}"
            )
        ],
    ),
    (
        "spec.terminationGracePeriodSeconds",
        -1,
        ["spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"],
    ),
    (
        f"{AFFINITY}.podAntiAffinity",
        {
            REQUIRED: [{"topologyKey": "k"}],
            PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": "k", "labelSelector": {}}}],
        },
        [f"{AFFINITY}.podAntiAffinity.{REQUIRED}[0].labelSelector: {NULL}"],
    ),
]


def _moved(text: str, path: str) -> str:
    return f"{path}.{text.replace('definition with ', f'definition with {path}.')}"


@pytest.mark.parametrize(("path", "value", "told"), CASES)
def test_deprecated_and_ambiguous_pod_fields_warn_when_new(path: str, value: Any, told: list[str]) -> None:
    """Deprecated, ambiguous and ineffective pod fields warn when they are new, in templates too."""
    pod = changed(POD, path, value)
    assert warned("/pods", pod) == told
    assert warned("/pods", pod, POD) == []
    template = {"template": pod}
    assert warned("/podtemplates", template) == [_moved(text, "template") for text in told]
    workload = changed(DEPLOYMENT, f"spec.template.{path}", value)
    assert warned("apps/deployments", workload) == [_moved(text, "spec.template") for text in told]


def test_the_old_profile_of_a_container_counts_in_templates_only() -> None:
    """The old AppArmor annotation warns only in templates: pods get the field instead."""
    notes = {"container.apparmor.security.beta.kubernetes.io/c": "unconfined"}
    pod = changed(POD, "metadata.annotations", notes)
    assert warned("/pods", pod) == []
    [warnings] = warned("/podtemplates", {"template": pod})
    assert warnings.endswith('deprecated since v1.30; use the "appArmorProfile" field instead')


@pytest.mark.parametrize(
    ("kind", "where"),
    [
        ("/pods", "the Pod's hostname"),
        ("apps/deployments", "Pod names and hostnames"),
        ("batch/cronjobs", "Pod names and hostnames"),
        ("apps/daemonsets", ""),
    ],
)
def test_names_that_are_no_hosts(kind: str, where: str) -> None:
    """A hostname with a dot is allowed, but gives a warning."""
    warnings = warned(kind, {"metadata": {"name": "a.b"}})
    assert warnings == (
        [
            (
                f"metadata.name: this is used in {where}, which can result in surprising behavior; a DNS label is"
                " recommended: [must not contain dots]"
            )
        ]
        if where
        else []
    )


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (
            {"clusterIP": "None", "sessionAffinity": "ClientIP"},
            ["spec.SessionAffinity is ignored for headless services"],
        ),
        (
            {"clusterIP": "None", "externalIPs": ["10.0.0.1"], "loadBalancerIP": "10.0.0.1"},
            [
                "spec.loadBalancerIP is ignored for headless services",
                "spec.externalIPs is ignored for headless services",
                "spec.externalIPs is deprecated",
            ],
        ),
        (
            {"type": "ExternalName", "externalName": "a.b", "externalIPs": ["10.0.0.1"]},
            ["spec.externalIPs is deprecated", 'spec.externalIPs is ignored when spec.type is "ExternalName"'],
        ),
        ({"externalName": "a.b"}, ['spec.externalName is ignored when spec.type is not "ExternalName"']),
        (
            {"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.1/8", "10.0.0.0/8"]},
            [
                (
                    'spec.loadBalancerSourceRanges[0]: CIDR value "10.0.0.1/8" is ambiguous in this context (should be'
                    ' "10.0.0.0/8" or "10.0.0.1/32"?)'
                )
            ],
        ),
    ],
)
def test_ineffective_service_fields_warn(spec: JsonObject, told: list[str]) -> None:
    """Service fields that have no effect warn when they are new."""
    assert warned("/services", {"spec": spec}) == told
    assert warned("/services", {"spec": spec}, {"spec": spec}) == []


@pytest.mark.parametrize(
    ("kind", "tree", "told"),
    [
        (
            "networking.k8s.io/ingresses",
            {"metadata": {"annotations": {"kubernetes.io/ingress.class": "x"}}},
            "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead",
        ),
        (
            "/persistentvolumes",
            {"spec": {"persistentVolumeReclaimPolicy": "Recycle"}},
            (
                "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended"
                " approach is to use dynamic provisioning."
            ),
        ),
        (
            "/persistentvolumes",
            {"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}}},
            (
                "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use"
                ' "storageClassName" attribute instead'
            ),
        ),
        (
            "/persistentvolumeclaims",
            {"spec": {"resources": {"requests": {"storage": "500m"}}}},
            'spec.resources.requests[storage]: fractional byte value "500m" is invalid, must be an integer',
        ),
        (
            "storage.k8s.io/storageclasses",
            {"allowedTopologies": [{"matchLabelExpressions": [{"key": "beta.kubernetes.io/os", "values": ["a"]}]}]},
            f"allowedTopologies[0].matchLabelExpressions[0].key: {OLD_OS}",
        ),
        (
            "node.k8s.io/runtimeclasses",
            {"handler": "h", "scheduling": {"nodeSelector": {"beta.kubernetes.io/os": "a"}}},
            f"scheduling.nodeSelector[beta.kubernetes.io/os]: {OLD_OS}",
        ),
        (
            "/serviceaccounts",
            {"metadata": {"annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}}},
            (
                "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate"
                " namespaces to isolate access to mounted secrets"
            ),
        ),
        (
            "networking.k8s.io/networkpolicies",
            {"spec": {"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.1/8"}}]}]}},
            (
                'spec.ingress[0].from[0].ipBlock.cidr: CIDR value "10.0.0.1/8" is ambiguous in this context (should be'
                ' "10.0.0.0/8" or "10.0.0.1/32"?)'
            ),
        ),
        (
            "/persistentvolumeclaims",
            {"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}}, "spec": {}},
            (
                "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use"
                ' "storageClassName" attribute instead'
            ),
        ),
        (
            "/services",
            {"metadata": {"annotations": {"service.kubernetes.io/topology-aware-hints": "x"}}, "spec": {}},
            (
                "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use"
                " service.kubernetes.io/topology-mode instead"
            ),
        ),
        (
            "/services",
            {"spec": {"trafficDistribution": "PreferClose"}},
            'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"',
        ),
        (
            "/nodes",
            {"spec": {"externalID": "x"}},
            "spec.externalID: this field is deprecated, and is unused by Kubernetes",
        ),
        (
            "apps/statefulsets",
            {"spec": {"revisionHistoryLimit": -1}},
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended",
        ),
    ],
)
def test_other_kinds_warn_about_deprecated_fields(kind: str, tree: JsonObject, told: str) -> None:
    """Deprecated fields of other kinds give one warning each."""
    assert warned(kind, tree) == [told]
