"""Render objects in the server's internal form, as its messages show them: every field, by its Go name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Final

from envtest.data.fields import NULL, POINTER, forms
from envtest.data.schemas import types
from opsdk.structured_merge.value import JsonObject, JsonValue

Show = Callable[[JsonValue], JsonValue]

CORE: Final = "io.k8s.api.core.v1."
BATCH: Final = "io.k8s.api.batch.v1."
_OWN: Final = "io.k8s.api."
_REF: Final = "#/components/schemas/"
POD_SPEC: Final = f"{CORE}PodSpec"
TEMPLATE: Final = f"{CORE}PodTemplateSpec"
CLAIM_SPEC: Final = f"{CORE}PersistentVolumeClaimSpec"
VOLUME_SOURCE: Final = f"{CORE}PersistentVolumeSpec"
"""Messages show only the volume source of a persistent volume's spec."""
_ZEROS: Final[Mapping[str, JsonValue]] = {"string": "", "integer": 0, "number": 0, "boolean": False}
_VALUES: Final[Mapping[str, JsonValue]] = {"Quantity": "0", "IntOrString": 0}

_CAPITALS: Final = frozenset(
    {
        "csi", "fc", "gid", "grpc", "ip", "iqn", "iscsi", "nfs", "os", "rbd", "tty", "uid",
    }
)  # fmt: skip
"""Names that Go writes in capitals."""
_BEGIN: Final = {
    "api": "API", "aws": "AWS", "dns": "DNS", "fs": "FS", "gce": "GCE", "gmsa": "GMSA", "http": "HTTP", "ip": "IP",
    "iscsi": "ISCSI", "qos": "QOS", "seLinux": "SELinux", "ssl": "SSL", "tcp": "TCP",
}  # fmt: skip
"""Initialisms at the start of names, before a capital letter."""
_NAMES: Final = {
    "cephfs": "CephFS", "chapAuthDiscovery": "DiscoveryCHAPAuth", "chapAuthSession": "SessionCHAPAuth",
    "diskURI": "DataDiskURI", "storageos": "StorageOS", "wwids": "WWIDs", "osImage": "OSImage", "pdName": "PDName",
}  # fmt: skip
"""Names whose Go field differs from the API field."""
_OF_TYPES: Final[Mapping[str, Mapping[str, str]]] = {
    "RBD": {"monitors": "CephMonitors", "image": "RBDImage", "pool": "RBDPool", "user": "RadosUser"},
    "Glusterfs": {"endpoints": "EndpointsName"},
}
"""Such names in single types of volume sources."""

_HOST: Final = ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers")
"""Fields of a pod spec that the internal type has in the security context."""
_SPEC_ORDER: Final = (
    "volumes", "initContainers", "containers", "ephemeralContainers", "restartPolicy", "terminationGracePeriodSeconds",
    "activeDeadlineSeconds", "dnsPolicy", "nodeSelector", "serviceAccountName", "automountServiceAccountToken",
    "nodeName", "securityContext", "imagePullSecrets", "hostname", "subdomain", "setHostnameAsFQDN", "affinity",
    "schedulerName", "tolerations", "hostAliases", "priorityClassName", "priority", "preemptionPolicy", "dnsConfig",
    "readinessGates", "runtimeClassName", "overhead", "enableServiceLinks", "topologySpreadConstraints", "os",
    "schedulingGates", "resourceClaims", "resources", "hostnameOverride", "schedulingGroup",
)  # fmt: skip
_CONTEXT_ORDER: Final = (
    "seLinuxOptions", "windowsOptions", "runAsUser", "runAsGroup", "runAsNonRoot", "supplementalGroups",
    "supplementalGroupsPolicy", "fsGroup", "fsGroupChangePolicy", "sysctls", "seccompProfile", "appArmorProfile",
    "seLinuxChangePolicy",
)  # fmt: skip
_SECURITY_ORDER: Final = (
    "capabilities", "privileged", "seLinuxOptions", "windowsOptions", "runAsUser", "runAsGroup", "runAsNonRoot",
    "readOnlyRootFilesystem", "allowPrivilegeEscalation", "procMount", "seccompProfile", "appArmorProfile",
)  # fmt: skip
_VOLUME_ORDER: Final = (
    "gcePersistentDisk", "awsElasticBlockStore", "hostPath", "glusterfs", "nfs", "rbd", "quobyte", "iscsi",
    "flexVolume", "cinder", "cephfs", "fc", "flocker", "azureFile", "vsphereVolume", "azureDisk",
    "photonPersistentDisk", "portworxVolume", "scaleIO", "local", "storageos", "csi",
)  # fmt: skip
_ORDERS: Final[Mapping[str, Sequence[str]]] = {
    POD_SPEC: _SPEC_ORDER,
    f"{CORE}PodSecurityContext": _CONTEXT_ORDER,
    f"{CORE}SecurityContext": _SECURITY_ORDER,
    f"{CORE}PersistentVolumeSpec": _VOLUME_ORDER,
}
"""Types whose internal fields or their order differ from the API."""


def go_name(field: str, of: str = "") -> str:
    """Return the Go name of a field.

    >>> go_name("dnsPolicy"), go_name("hostPID"), go_name("tty"), go_name("image", "RBDVolumeSource")
    ('DNSPolicy', 'HostPID', 'TTY', 'RBDImage')
    """
    of = of.removesuffix("VolumeSource").removesuffix("Persistent")
    field_name = _OF_TYPES.get(of, {}).get(field) or _NAMES.get(field)
    if field_name:
        return field_name
    if field in _CAPITALS:
        return field.upper()
    for start, replacement in _BEGIN.items():
        rest = field.removeprefix(start)
        if rest != field and rest[:1].isupper():
            return replacement + rest
    return field[:1].upper() + field[1:]


def shown(name: str, value: JsonValue) -> JsonValue:
    """Return a value of an API type, given by its name, in the internal form; the same value if nothing differs."""
    return None if value is None else _show(name)(value)


@cache
def _show(name: str) -> Show:
    if not name.startswith(_OWN) or not (types().schema(name) or {}).get("properties"):
        return _as_is
    fields = list(_fields(name))

    def show(tree: JsonObject) -> JsonObject:
        # The fields of metadata are shown inline.
        return {**(tree.get("metadata") or {}), **{go: part(tree.get(key)) for key, go, part in fields}}

    return partial(_pod_spec, show) if name == POD_SPEC else show


def _as_is(value: JsonValue) -> JsonValue:
    return value


def _pod_spec(show: Show, spec: JsonObject) -> JsonObject:
    """Show a pod spec. In the internal form the host namespaces are fields of the security context."""
    internal: JsonObject = show(spec)
    of_node = {go_name(key): spec.get(key, False if key in _HOST[:3] else None) for key in _HOST}
    internal["SecurityContext"] = {**of_node, **shown(f"{CORE}PodSecurityContext", spec.get("securityContext") or {})}
    return internal


def _fields(name: str) -> Iterator[tuple[str, str, Show]]:
    schema = (types().schema(name) or {})["properties"]
    marks = forms(name)
    short = name.rpartition(".")[2]
    for key in _ORDERS.get(name) or marks:
        if key in schema and key != "metadata":
            yield key, go_name(key, short), _part(schema[key], marks.get(key, ""))


def _part(schema: Mapping[str, JsonValue], mark: str) -> Show:
    """Return the function that shows the value of a field; an absent value is shown as its zero value."""
    ref = schema["allOf"][0]["$ref"] if "allOf" in schema else schema.get("$ref", "")
    name = str(ref).removeprefix(_REF)
    optional = mark in (POINTER, NULL)
    if name:
        # A struct without a pointer is printed even if it is empty.
        zero = None if optional else _VALUES.get(name.rpartition(".")[2])
        whole = "default" in schema and zero is None and (types().schema(name) or {}).get("properties")

        def show(value: JsonValue) -> JsonValue:
            if value is None:
                return shown(name, {}) if whole else zero
            return shown(name, value)

        return show
    if schema.get("type") == "array":
        return partial(_each, _part(schema["items"], ""))
    if "additionalProperties" in schema:
        return _sorted
    zero = None if optional else _ZEROS.get(schema.get("type", ""))
    return lambda value: zero if value is None else value


def _each(part: Show, value: JsonValue) -> JsonValue:
    return [part(item) for item in value] if value else None


def _sorted(value: JsonValue) -> JsonValue:
    return dict(sorted(value.items())) if value else None


# ------------------------------------------------------------------ differences
def difference(name: str, old: JsonValue, new: JsonValue) -> str:
    """Return the difference of two values of a type, as the server prints it."""
    import difflib  # noqa: PLC0415 - few errors show a difference

    before, after = (_lines(shown(name, value)) for value in (old, new))
    lines = list(difflib.unified_diff(before, after, n=3, lineterm=""))[2:]
    return "".join(f"{line}\n" for line in lines)


def _lines(value: JsonValue) -> list[str]:
    text = json.dumps(value, indent=1, ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.splitlines()
