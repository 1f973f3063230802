"""Validation of volume sources in pods and in persistent volumes.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from envtest.groups.common import validation
from opsdk.apimachinery.validation import dns_subdomain
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

Check = Callable[[JsonObject, str], Iterator[Cause]]

_HOST_PATHS: Final = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_IQN: Final = {
    "iqn": r"^iqn\.\d{4}-\d{2}\.[0-9A-Za-z\-.]++:[^,;*&$|\s]++$",
    "eui": r"^eui.[0-9A-Za-z]{16}$",
    "naa": r"^naa.[0-9A-Za-z]{32}$",
}
_DISK_KINDS: Final = ("Dedicated", "Managed", "Shared")
_DISK_CACHES: Final = ("None", "ReadOnly", "ReadWrite")
_MANAGED: Final = ("/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",)
_BLOB: Final = ("https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd",)
_HOSTS: Final = "must be a host:port pair or multiple pairs separated by commas"
_BOTH_FLOCKERS: Final = "datasetName and datasetUUID can not be specified simultaneously"


def exactly_one(sources: JsonObject, order: Sequence[str], checks: Mapping[str, Check], path: str) -> Iterator[Cause]:
    """Validate that exactly one source is set; the first in `order` is validated."""
    keys = [key for key in order if sources.get(key) is not None]
    if not keys:
        yield api_errors.required(path, "must specify a volume type")
        return
    yield from checks[keys[0]](sources[keys[0]], f"{path}.{keys[0]}")
    for key in keys[1:]:
        yield api_errors.not_allowed(f"{path}.{key}", "may not specify more than 1 volume type")


def required_keys(*keys: str) -> Check:
    """Validate that these keys are set."""

    def check(source: JsonObject, path: str) -> Iterator[Cause]:
        for key in keys:
            yield from validation.required(source.get(key), f"{path}.{key}")

    return check


def secret_ref(ref: JsonObject | None, path: str, *, namespaced: bool = False) -> Iterator[Cause]:
    """Validate a secret reference."""
    if ref is None:
        return
    yield from validation.required(ref.get("name"), f"{path}.name")
    if namespaced:
        yield from validation.required(ref.get("namespace"), f"{path}.namespace")


def host_path(source: JsonObject, path: str) -> Iterator[Cause]:
    """Validate a host path and its type."""
    if not source.get("path"):
        yield api_errors.required(f"{path}.path")
        return
    yield from validation.path_no_backsteps(source["path"], f"{path}.path")
    kind = source.get("type") or ""
    if kind not in _HOST_PATHS:
        yield api_errors.unsupported(f"{path}.type", kind, _HOST_PATHS)


def git_repo(source: JsonObject, path: str) -> Iterator[Cause]:
    """Validate a repository and a directory."""
    yield from validation.required(source.get("repository"), f"{path}.repository")
    yield from validation.local_descending_path(source.get("directory", ""), f"{path}.directory")


def nfs(source: JsonObject, path: str) -> Iterator[Cause]:
    """Validate server and absolute path."""
    yield from required_keys("server", "path")(source, path)
    target = source.get("path", "")
    if not target.startswith("/"):
        yield api_errors.invalid_value(f"{path}.path", target, "must be an absolute path")


def iscsi(source: JsonObject, path: str) -> Iterator[Cause]:
    """Validate portal, target name and LUN."""
    yield from validation.required(source.get("targetPortal"), f"{path}.targetPortal")
    if not source.get("iqn"):
        yield api_errors.required(f"{path}.iqn")
    else:
        yield from _validate_initiator_name(source["iqn"], f"{path}.iqn")
    yield from validation.in_range(source.get("lun", 0), 0, 255, f"{path}.lun")
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        yield api_errors.required(f"{path}.secretRef")
    if source.get("initiatorName") is not None:
        yield from _validate_initiator_name(source["initiatorName"], f"{path}.initiatorname")


def _validate_initiator_name(name: str, path: str) -> Iterator[Cause]:
    if not name.startswith(tuple(_IQN)):
        yield api_errors.invalid_value(path, name, "must be valid format starting with iqn, eui, or naa")
    elif not any(name.startswith(prefix) and re.search(form, name) for prefix, form in _IQN.items()):
        yield api_errors.invalid_value(path, name, "must be valid format")


def fibre_channel(source: JsonObject, path: str) -> Iterator[Cause]:
    """Validate target WWNs with a LUN, or WWIDs."""
    targets, ids, unit = source.get("targetWWNs") or [], source.get("wwids") or [], source.get("lun")
    if not targets and not ids:
        yield api_errors.required(f"{path}.targetWWNs", "must specify either targetWWNs or wwids, but not both")
    if targets and ids:
        text = "targetWWNs and wwids can not be specified simultaneously"
        yield api_errors.invalid_value(f"{path}.targetWWNs", targets, text)
    if targets and unit is None:
        yield api_errors.required(f"{path}.lun", "lun is required if targetWWNs is specified")
    elif targets and unit is not None:
        yield from validation.in_range(unit, 0, 255, f"{path}.lun")


def _disk(key: str) -> Check:
    """Return the validation of a disk source with a name and a partition."""

    def check(source: JsonObject, path: str) -> Iterator[Cause]:
        yield from validation.required(source.get(key), f"{path}.{key}")
        if not 0 <= source.get("partition", 0) <= 255:
            text = "must be between 1 and 255, inclusive"
            yield api_errors.invalid_value(f"{path}.partition", source["partition"], text)

    return check


def quobyte(source: JsonObject, path: str) -> Iterator[Cause]:
    """Validate registries and volume."""
    registry = source.get("registry", "")
    if not registry:
        yield api_errors.required(f"{path}.registry", _HOSTS)
    elif len(source.get("tenant", "")) >= 65:
        text = "must be a UUID and may not exceed a length of 64 characters"
        yield api_errors.required(f"{path}.tenant", text)
    elif not all(re.fullmatch(r"[^:\[\]]*:[^:\[\]]*|\[[^\[\]]*\]:[^:]*", pair) for pair in registry.split(",")):
        yield api_errors.invalid_value(f"{path}.registry", registry, _HOSTS)
    yield from validation.required(source.get("volume"), f"{path}.volume")


def flocker(source: JsonObject, path: str) -> Iterator[Cause]:
    """Validate a dataset name or a dataset UUID."""
    name, uid = source.get("datasetName", ""), source.get("datasetUUID", "")
    if not name and not uid:
        yield api_errors.required(path, "one of datasetName and datasetUUID is required")
    if name and uid:
        yield api_errors.invalid_value(path, "resource", _BOTH_FLOCKERS)
    if "/" in name:
        yield api_errors.invalid_value(f"{path}.datasetName", name, "must not contain '/'")


def flex(source: JsonObject, path: str) -> Iterator[Cause]:
    """Validate a driver and its options."""
    yield from validation.required(source.get("driver"), f"{path}.driver")
    for key in sorted(source.get("options") or {}):
        owner = "." + (key.partition("/")[0] if "/" in key else key).lower()
        if owner.endswith((".kubernetes.io", ".k8s.io")):
            text = "kubernetes.io and k8s.io namespaces are reserved"
            yield api_errors.invalid_value(f"{path}.options[{key}]", key, text)


def azure_disk(source: JsonObject, path: str) -> Iterator[Cause]:
    """Validate a disk whose URI fits its kind."""
    uri, kind, cache = source.get("diskURI", ""), source.get("kind"), source.get("cachingMode")
    yield from required_keys("diskName", "diskURI")(source, path)
    if cache is not None and cache not in _DISK_CACHES:
        yield api_errors.unsupported(f"{path}.cachingMode", cache, _DISK_CACHES)
    if kind is not None and kind not in _DISK_KINDS:
        yield api_errors.unsupported(f"{path}.kind", kind, _DISK_KINDS)
    if kind == "Managed" and not uri.startswith("/subscriptions/"):
        yield api_errors.unsupported(f"{path}.diskURI", uri, _MANAGED)
    if kind not in (None, "Managed") and not uri.startswith("https://"):
        yield api_errors.unsupported(f"{path}.diskURI", uri, _BLOB)


def storage_os(source: JsonObject, path: str) -> Iterator[Cause]:
    """Validate volume, namespace and secret."""
    if source.get("volumeName"):
        yield from validation.label(source["volumeName"], f"{path}.volumeName")
    else:
        yield api_errors.required(f"{path}.volumeName")
    if source.get("volumeNamespace"):
        yield from validation.label(source["volumeNamespace"], f"{path}.volumeNamespace")
    yield from secret_ref(source.get("secretRef"), f"{path}.secretRef")


def cinder(source: JsonObject, path: str) -> Iterator[Cause]:
    """Validate a volume and an optional secret."""
    yield from validation.required(source.get("volumeID"), f"{path}.volumeID")
    yield from secret_ref(source.get("secretRef"), f"{path}.secretRef")


def driver_name(name: str, path: str) -> Iterator[Cause]:
    """Validate the name of a CSI driver."""
    if not name:
        yield api_errors.required(path)
    if len(name) > 63:
        yield api_errors.too_long(path, 63)
    yield from validation.each(dns_subdomain(name.lower()), name, path)


SHARED: Final[Mapping[str, Check]] = {
    "hostPath": host_path,
    "gcePersistentDisk": _disk("pdName"),
    "awsElasticBlockStore": _disk("volumeID"),
    "nfs": nfs,
    "iscsi": iscsi,
    "flocker": flocker,
    "rbd": required_keys("monitors", "image"),
    "glusterfs": required_keys("endpoints", "path"),
    "quobyte": quobyte,
    "cephfs": required_keys("monitors"),
    "cinder": cinder,
    "fc": fibre_channel,
    "flexVolume": flex,
    "azureFile": required_keys("secretName", "shareName"),
    "vsphereVolume": required_keys("volumePath"),
    "photonPersistentDisk": required_keys("pdID"),
    "portworxVolume": required_keys("volumeID"),
    "azureDisk": azure_disk,
    "scaleIO": required_keys("gateway", "system", "volumeName"),
    "storageos": storage_os,
}
"""The sources that pods and persistent volumes share."""
