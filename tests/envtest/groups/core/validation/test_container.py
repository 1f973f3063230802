"""Validation of containers: fields that only some containers may have."""

from __future__ import annotations

from typing import Any

import pytest

from opsdk.structured_merge.value import JsonObject
from tests.envtest.groups.kindkit import changed, wrong

POD: JsonObject = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
AT = "spec.containers[0]"
STANDARD = "must be a standard resource type or fully qualified"
MULTIPLE = "integer multiple of hugepages-2Mi"
RULE = {"action": "Restart", "exitCodes": {"operator": "In", "values": [3]}}
MOUNTING: JsonObject = {
    "spec": {
        "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        "volumes": [{"name": "v", "emptyDir": {}}],
    }
}

CONTAINERS = [
    ("terminationMessagePolicy", "Odd",
     [f'{AT}.terminationMessagePolicy: Unsupported value: "Odd": supported values: "File", "FallbackToLogsOnError"']),
    ("restartPolicyRules", [RULE],
     [f"{AT}.restartPolicy: Required value: must specify restartPolicy when restart rules are used"]),
    ("restartPolicy", "Sometimes",
     [f'{AT}.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "Never", "OnFailure"']),
    ("resizePolicy", [{"resourceName": "cpu", "restartPolicy": "Odd"}],
     [f'{AT}.resizePolicy: Unsupported value: "Odd": supported values: "NotRequired", "RestartContainer"']),
    ("resizePolicy", [{"resourceName": "disk", "restartPolicy": "NotRequired"}],
     [f'{AT}.resizePolicy: Unsupported value: "disk": supported values: "cpu", "memory"']),
    ("resources", {"claims": [{"name": "x"}]},
     [(f'{AT}.resources.claims[0]: Not found: "x": must be one of the names in pod.spec.resourceClaims which is'
       " empty")]),
    ("resources", {"requests": {"bananas": "1"}, "limits": {"bananas": "1"}},
     [f'{AT}.resources.{kind}[bananas]: Invalid value: "bananas": {text}'
      for kind in ("limits", "requests")
      for text in (STANDARD, "must be a standard resource for containers")]),
    ("resources", {"limits": {"cpu": "1", "hugepages-2Mi": "3Mi"}, "requests": {"cpu": "1", "hugepages-2Mi": "3Mi"}},
     [f'{AT}.resources.{kind}[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive {MULTIPLE}'
      for kind in ("limits", "requests")]),
    ("env", [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}}],
     [(f'{AT}.env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor\'s values 1m and 1'
       " are supported with the cpu resource")]),
    ("env", [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "v", "path": "../x", "key": "k"}}}],
     [f"{AT}.env[0].valueFrom.fileKeyRef.path: Invalid value: \"../x\": must not contain '..'"]),
    ("securityContext", {"procMount": "Unmasked"},
     [f'{AT}.securityContext.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`']),
    ("securityContext", {"windowsOptions": {"runAsUserName": "a\\b\\c"}},
     [(f'{AT}.securityContext.windowsOptions.runAsUserName: Invalid value: "a\\\\b\\\\c": runAsUserName cannot contain'
       " more than one backslash")]),
]  # fmt: skip


@pytest.mark.parametrize(("key", "value", "found"), CONTAINERS)
def test_container_errors_name_the_field(key: str, value: Any, found: list[str]) -> None:
    """Each invalid field of a container is an error at its path."""
    assert wrong("/pods", changed(POD, f"spec.containers.0.{key}", value)) == found


RULES = [
    ({"action": ""}, ["action: Required value", "exitCodes: Required value: must be specified"]),
    ({**RULE, "action": "Stop"},
     ['action: Unsupported value: "Stop": supported values: "Restart", "RestartAllContainers"']),
    ({**RULE, "exitCodes": {"operator": "Equals", "values": [1]}},
     ['exitCodes.operator: Unsupported value: "Equals": supported values: "In", "NotIn"']),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "found"), RULES)
def test_restart_rules_need_an_action_and_exit_codes(rule: JsonObject, found: list[str]) -> None:
    """A container restart rule needs a known action and valid exit codes."""
    tree = changed(POD, "spec.containers.0.restartPolicy", "Never")
    errors = wrong("/pods", changed(tree, "spec.containers.0.restartPolicyRules", [rule]))
    assert errors == [f"{AT}.restartPolicyRules[0].{text}" for text in found]


MOUNTS = [
    ({"subPath": "/x"}, 'volumeMounts.subPath: Invalid value: "/x": must be a relative path'),
    ({"mountPropagation": "Bidirectional"},
     ("volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged"
      " containers")),
    ({"recursiveReadOnly": "Enabled"},
     "volumeMounts[0].recursiveReadOnly: Forbidden: may only be specified when readOnly is true"),
    ({"subPath": "a", "subPathExpr": "b"},
     'volumeMounts[0].subPathExpr: Invalid value: "b": subPathExpr and subPath are mutually exclusive'),
]  # fmt: skip


@pytest.mark.parametrize(("mount", "found"), MOUNTS)
def test_mount_errors_name_the_field(mount: JsonObject, found: str) -> None:
    """Each invalid field of a volume mount is an error; upstream omits the index in some messages."""
    tree = changed(MOUNTING, "spec.containers.0.volumeMounts", [{"name": "v", "mountPath": "/v", **mount}])
    assert wrong("/pods", tree) == [f"{AT}.{found}"]


def test_devices_are_no_mounts() -> None:
    """A volume is either a device or a mount."""
    devices = [{"name": "v", "devicePath": "/v"}]
    errors = wrong("/pods", changed(MOUNTING, "spec.containers.0.volumeDevices", devices))
    assert f'{AT}.volumeDevices[0].name: Invalid value: "v": must not already exist in volumeMounts' in errors
    text = "must not already exist as a path in volumeMounts"
    assert f'{AT}.volumeDevices[0].devicePath: Invalid value: "/v": {text}' in errors


def test_init_containers_have_no_lifecycle() -> None:
    """Init containers without restartPolicy Always have no probes, hooks or restarting resize policy."""
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    first = {"name": "f", "image": "i", "livenessProbe": {"exec": {"command": ["x"]}}, "resizePolicy": policy}
    path = "spec.initContainers[0]"
    assert wrong("/pods", changed(POD, "spec.initContainers", [first])) == [
        f"{path}.livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
        (
            f"{path}.resizePolicy: Invalid value: \"RestartContainer\": must be 'NotRequired' for init containers"
            " without restartPolicy=Always"
        ),
    ]
    assert not wrong("/pods", changed(POD, "spec.initContainers", [{**first, "restartPolicy": "Always"}]))


SPECS = [
    ({"hostUsers": False, "hostNetwork": True}, ["spec.hostNetwork: Forbidden: when `hostUsers` is false"]),
    ({"os": {"name": "linux"}, "securityContext": {"windowsOptions": {}}},
     ["spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod"]),
    ({"os": {"name": "windows"}, "hostPID": True}, ["spec.hostPID: Forbidden: cannot be set for a windows pod"]),
    ({"securityContext": {"windowsOptions": {"hostProcess": True}}},
     ["spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers"]),
    ({"resources": {"requests": {"disk": "1"}}},
     ['spec.resources.requests[disk]: Unsupported value: "disk": supported values: "cpu", "hugepages-", "memory"']),
    ({"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "500m"}}},
     ['spec.resources.requests: Invalid value: "1": must be less than or equal to cpu limit of 500m']),
    ({"resourceClaims": [{"name": "a", "resourceClaimName": "x", "resourceClaimTemplateName": "y"}]},
     [('spec.resourceClaims[0]: Invalid value: {"Name":"a","ResourceClaimName":"x","ResourceClaimTemplateName":"y"}: at'
       " most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified")]),
    ({"dnsConfig": {"searches": ["_a.b.", ".", "A"]}},
     [('spec.dnsConfig.searches[2]: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case'
       " alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g."
       " 'example.com', regex used for validation is"
       " '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')")]),
    ({"securityContext": {"sysctls": [{"name": "net.core.x", "value": "1"}]}, "hostNetwork": True},
     [('spec.securityContext.sysctls[0].name: Invalid value: "net.core.x": may not be specified when \'hostNetwork\' is'
       " true")]),
    ({"hostAliases": [{"ip": "1.2.3.4", "hostnames": ["ok", "A!"]}]}, ["spec.hostAliases[0].hostnames[1]"]),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "found"), SPECS)
def test_pod_errors_cover_os_user_and_devices(spec: JsonObject, found: list[str]) -> None:
    """Invalid operating systems, users, devices and hostnames of a pod are errors."""
    errors = wrong("/pods", {"spec": {**POD["spec"], **spec}})
    assert len(errors) == len(found)
    assert all(text.startswith(begin) for text, begin in zip(errors, found, strict=True))


def test_pods_ask_for_what_their_containers_do() -> None:
    """Pod-level resources are at least the sum of the containers' resources."""
    tree = changed(POD, "spec.containers.0.resources", {"requests": {"cpu": "2"}})
    text = "must be greater than or equal to aggregate container requests of 2"
    assert wrong("/pods", changed(tree, "spec.resources", {"requests": {"cpu": "1"}})) == [
        f'spec.resources.requests[cpu]: Invalid value: "1": {text}'
    ]


# ------------------------------------------------------------------ where pods run
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def test_affinity_values_are_label_values() -> None:
    """Values of required node affinity are label values; matchLabelKeys need a label selector."""
    term = {"matchExpressions": [{"key": "a", "operator": "In", "values": ["not ok"]}]}
    node = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}
    [errors] = wrong("/pods", changed(POD, "spec.affinity", node))
    where = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values[0]"
    assert errors.startswith(f'{where}: Invalid value: "not ok"')
    pods = {"podAffinity": {REQUIRED: [{"topologyKey": "z", "matchLabelKeys": ["a"]}]}}
    assert wrong("/pods", changed(POD, "spec.affinity", pods)) == [
        (
            f"spec.affinity.podAffinity.{REQUIRED}[0].matchLabelKeys: Forbidden: must not be specified when"
            " labelSelector is not set"
        )
    ]


def test_duplicate_spread_constraints_name_the_first() -> None:
    """Of two spread constraints with equal keys, the error names the first."""
    one = {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
    where = "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}"
    assert wrong("/pods", changed(POD, "spec.topologySpreadConstraints", [one, one])) == [
        f'{where}: Duplicate value: "{{z, DoNotSchedule}}"'
    ]
    odd = {**one, "nodeTaintsPolicy": "Odd"}
    assert wrong("/pods", changed(POD, "spec.topologySpreadConstraints", [odd])) == [
        (
            'spec.topologySpreadConstraints[0].nodeTaintsPolicy: Unsupported value: "Odd": supported values: "Honor",'
            ' "Ignore"'
        )
    ]
