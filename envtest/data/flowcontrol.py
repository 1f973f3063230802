"""The bootstrap FlowSchemas and PriorityLevelConfigurations. This server does not enforce them.

Upstream: k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap/default.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from opsdk.structured_merge.value import JsonObject

GROUP: Final = "flowcontrol.apiserver.k8s.io"

# Name, shares, queues (none: reject), hand size, lendable percentage.
_LEVELS: Final = (
    ("catch-all", 5, 0, 0, 0),
    ("system", 30, 64, 6, 33),
    ("node-high", 40, 64, 6, 25),
    ("leader-election", 10, 16, 4, 0),
    ("workload-high", 40, 128, 6, 50),
    ("workload-low", 100, 128, 6, 90),
    ("global-default", 20, 128, 6, 50),
)
_EVERYBODY = ("g:system:unauthenticated", "g:system:authenticated")
_ALL_RESOURCES = ("*|*|*|*|c",)
_ANY_PATH = ("*|*",)
# Name, level, precedence, distinguisher, rules: (subjects, resource rules, non-resource rules).
_SCHEMAS: Final = (
    ("exempt", "exempt", 1, "", ((("g:system:masters",), _ALL_RESOURCES, _ANY_PATH),)),
    ("probes", "exempt", 2, "", ((_EVERYBODY, (), ("get|/healthz,/readyz,/livez",)),)),
    (
        "system-leader-election", "leader-election", 100, "ByUser",
        ((("u:system:kube-controller-manager", "u:system:kube-scheduler", "a:kube-system/*"),
          ("get,create,update|coordination.k8s.io|leases|*|",), ()),),
    ),
    (
        "endpoint-controller", "workload-high", 150, "ByUser",
        ((("u:system:kube-controller-manager", "a:kube-system/endpoint-controller",
           "a:kube-system/endpointslicemirroring-controller"),
          ("get,create,update||endpoints|*|",), ()),),
    ),
    (
        "workload-leader-election", "leader-election", 200, "ByUser",
        ((("a:kube-system/*",), ("get,create,update|coordination.k8s.io|leases|*|",), ()),),
    ),
    (
        "system-node-high", "node-high", 400, "ByUser",
        ((("g:system:nodes",), ("*||nodes,nodes/status|*|c", "*|coordination.k8s.io|leases|*|"), ()),),
    ),
    ("system-nodes", "system", 500, "ByUser", ((("g:system:nodes",), _ALL_RESOURCES, _ANY_PATH),)),
    (
        "kube-controller-manager", "workload-high", 800, "ByNamespace",
        ((("u:system:kube-controller-manager",), _ALL_RESOURCES, _ANY_PATH),),
    ),
    (
        "kube-scheduler", "workload-high", 800, "ByNamespace",
        ((("u:system:kube-scheduler",), _ALL_RESOURCES, _ANY_PATH),),
    ),
    (
        "kube-system-service-accounts", "workload-high", 900, "ByNamespace",
        ((("a:kube-system/*",), _ALL_RESOURCES, _ANY_PATH),),
    ),
    (
        "service-accounts", "workload-low", 9000, "ByUser",
        ((("g:system:serviceaccounts",), _ALL_RESOURCES, _ANY_PATH),),
    ),
    ("global-default", "global-default", 9900, "ByUser", ((_EVERYBODY, _ALL_RESOURCES, _ANY_PATH),)),
    ("catch-all", "catch-all", 10000, "ByUser", ((_EVERYBODY, _ALL_RESOURCES, _ANY_PATH),)),
)  # fmt: skip


def bootstrap_flows() -> Iterator[tuple[str, JsonObject]]:
    """Return the objects with their resources, without uid and status."""
    yield _object(
        "prioritylevelconfigurations",
        "PriorityLevelConfiguration",
        "exempt",
        {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}},
    )
    for name, shares, queues, hand, lendable in _LEVELS:
        response: JsonObject = {"type": "Reject"}
        if queues:
            response = {"type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50}}
        limited = {"nominalConcurrencyShares": shares, "limitResponse": response, "lendablePercent": lendable}
        spec: JsonObject = {"type": "Limited", "limited": limited}
        yield _object("prioritylevelconfigurations", "PriorityLevelConfiguration", name, spec)
    for name, level, precedence, distinguisher, rules in _SCHEMAS:
        spec = {"priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence}
        if distinguisher:
            spec["distinguisherMethod"] = {"type": distinguisher}
        spec["rules"] = [_rule(*rule) for rule in rules]
        yield _object("flowschemas", "FlowSchema", name, spec)


def fixed_flow(resource: str, name: str) -> JsonObject | None:
    """Return the spec of a mandatory object, which is immutable, or None."""
    if name not in ("exempt", "catch-all"):
        return None
    specs = (flow["spec"] for kind, flow in bootstrap_flows() if (kind, flow["metadata"]["name"]) == (resource, name))
    spec: JsonObject = next(specs)
    return spec


def _object(resource: str, kind: str, name: str, spec: JsonObject) -> tuple[str, JsonObject]:
    meta: JsonObject = {"name": name, "generation": 1, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"}}
    return resource, {"kind": kind, "apiVersion": f"{GROUP}/v1", "metadata": meta, "spec": spec, "status": {}}


def _subject(text: str) -> JsonObject:
    kind, _, name = text.partition(":")
    if kind == "g":
        return {"kind": "Group", "group": {"name": name}}
    if kind == "u":
        return {"kind": "User", "user": {"name": name}}
    namespace, _, account = name.partition("/")
    return {"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": account}}


def _rule(subjects: tuple[str, ...], resources: tuple[str, ...], paths: tuple[str, ...]) -> JsonObject:
    rule: JsonObject = {"subjects": [_subject(s) for s in subjects]}
    if resources:
        rule["resourceRules"] = [_resource_rule(text) for text in resources]
    if paths:
        verbs_paths = (text.split("|") for text in paths)
        rule["nonResourceRules"] = [
            {"verbs": verbs.split(","), "nonResourceURLs": urls.split(",")} for verbs, urls in verbs_paths
        ]
    return rule


def _resource_rule(text: str) -> JsonObject:
    verbs, groups, resources, namespaces, scope = text.split("|")
    rule: JsonObject = {"verbs": verbs.split(","), "apiGroups": groups.split(","), "resources": resources.split(",")}
    if scope:
        rule["clusterScope"] = True
    rule["namespaces"] = namespaces.split(",")
    return rule
