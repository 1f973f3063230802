"""What volumes of pods may be."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from envtest.kinds import rules
from envtest.kinds.container_rules import VOLUME_FIELDS, validate_field_ref, validate_resource_ref
from opsdk.api.quantity import Quantity
from opsdk.apiserver import problems
from opsdk.apiserver.registry import names
from opsdk.apiserver.storage.ports import Tree
from opsdk.errors import Cause

_ORDER = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "azureFile", "configMap", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk", "storageos",
    "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip
_HOST_PATHS = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_NEEDED: Mapping[str, Sequence[str]] = {
    "gitRepo": ("repository",),
    "nfs": ("server", "path"),
    "persistentVolumeClaim": ("claimName",),
    "glusterfs": ("endpoints", "path"),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "rbd": ("monitors", "image"),
    "cephfs": ("monitors",),
    "cinder": ("volumeID",),
    "azureFile": ("secretName", "shareName"),
    "azureDisk": ("diskName", "diskURI"),
    "vsphereVolume": ("volumePath",),
    "csi": ("driver",),
}


def validate_volumes(volumes: Sequence[Tree], path: str) -> tuple[dict[str, Tree], list[Cause]]:
    """The volumes that are right, by name, and what is wrong with the others."""
    good: dict[str, Tree] = {}
    causes: list[Cause] = []
    for index, volume in enumerate(volumes):
        at, name = f"{path}[{index}]", volume.get("name", "")
        found = list(_source(volume, at))
        if not name:
            found.append(problems.required(f"{at}.name"))
        else:
            found.extend(rules.label(name, f"{at}.name"))
        if name in good:
            found.append(problems.duplicate(f"{at}.name", name))
        if found:
            causes.extend(found)
        else:
            good[name] = volume
    return good, causes


def _source(volume: Tree, path: str) -> Iterator[Cause]:
    kinds = [key for key in _ORDER if volume.get(key) is not None]
    if not kinds:
        yield problems.required(path, "must specify a volume type")
        return
    first = kinds[0]
    for key in _NEEDED.get(first, ()):
        yield from rules.needed(volume[first].get(key), f"{path}.{first}.{key}")
    check = _CHECKS.get(first)
    if check is not None:
        yield from check(volume[first], f"{path}.{first}")
    for key in kinds[1:]:
        yield problems.not_allowed(f"{path}.{key}", "may not specify more than 1 volume type")


def _host_path(source: Tree, path: str) -> Iterator[Cause]:
    if not source.get("path"):
        yield problems.required(f"{path}.path")
        return
    yield from rules.no_backsteps(source["path"], f"{path}.path")
    kind = source.get("type") or ""
    if kind not in _HOST_PATHS:
        yield problems.unsupported(f"{path}.type", kind, _HOST_PATHS)


def _nfs(source: Tree, path: str) -> Iterator[Cause]:
    if source.get("path") and not source["path"].startswith("/"):
        yield problems.invalid_value(f"{path}.path", source["path"], "must be an absolute path")


def _mode(value: int | None, field: str) -> Iterator[Cause]:
    if value is not None and not 0 <= value <= 0o777:
        yield problems.invalid_value(field, value, _MODE)


def _items(items: Sequence[Tree], path: str) -> Iterator[Cause]:
    for index, item in enumerate(items):
        at = f"{path}[{index}]"
        yield from rules.needed(item.get("key"), f"{at}.key")
        yield from rules.needed(item.get("path"), f"{at}.path")
        yield from rules.file_in_volume(item.get("path", ""), f"{at}.path")
        yield from _mode(item.get("mode"), f"{at}.mode")


def _secret(source: Tree, path: str) -> Iterator[Cause]:
    yield from rules.needed(source.get("secretName"), f"{path}.secretName")
    yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
    yield from _items(source.get("items") or (), f"{path}.items")


def _config_map(source: Tree, path: str) -> Iterator[Cause]:
    yield from rules.needed(source.get("name"), f"{path}.name")
    yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
    yield from _items(source.get("items") or (), f"{path}.items")


def _downward(source: Tree, path: str) -> Iterator[Cause]:
    yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
    yield from _files(source.get("items") or (), f"{path}")


def _files(items: Sequence[Tree], path: str) -> Iterator[Cause]:
    """Files of the downward API; their paths bear no index in messages."""
    for item in items:
        yield from rules.needed(item.get("path"), f"{path}.path")
        yield from rules.file_in_volume(item.get("path", ""), f"{path}.path")
        field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
        if field is not None:
            yield from validate_field_ref(field, f"{path}.fieldRef", VOLUME_FIELDS)
            if resource is not None:
                yield problems.invalid_value(
                    path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously"
                )
        elif resource is not None:
            yield from validate_resource_ref(resource, f"{path}.resourceFieldRef", in_volume=True)
        else:
            yield problems.required(path, "one of fieldRef and resourceFieldRef is required")
        yield from _mode(item.get("mode"), f"{path}.mode")


def _projected(source: Tree, path: str) -> Iterator[Cause]:
    yield from _mode(source.get("defaultMode"), f"{path}.defaultMode")
    for index, part in enumerate(source.get("sources") or ()):
        at = f"{path}.sources[{index}]"
        kinds = [key for key in part if part.get(key) is not None]
        if len(kinds) > 1:
            yield problems.not_allowed(at, "may not specify more than 1 volume type per source")
        for key, name in (("secret", "name"), ("configMap", "name")):
            if part.get(key) is not None:
                yield from rules.needed(part[key].get(name), f"{at}.{key}.{name}")
                yield from _items(part[key].get("items") or (), f"{at}.{key}.items")
        if part.get("downwardAPI") is not None:
            yield from _files(part["downwardAPI"].get("items") or (), f"{at}.downwardAPI")
        if part.get("serviceAccountToken") is not None:
            yield from _token(part["serviceAccountToken"], f"{at}.serviceAccountToken")


def _token(source: Tree, path: str) -> Iterator[Cause]:
    seconds = source.get("expirationSeconds", 3600)
    if seconds < 600:
        yield problems.invalid_value(
            f"{path}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"
        )
    if seconds > 1 << 32:
        yield problems.invalid_value(
            f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"
        )
    if not source.get("path"):
        yield problems.required(f"{path}.path")
    else:
        yield from rules.file_in_volume(source["path"], f"{path}.path")


def _ephemeral(source: Tree, path: str) -> Iterator[Cause]:
    if source.get("volumeClaimTemplate") is None:
        yield problems.required(f"{path}.volumeClaimTemplate")


def _empty(source: Tree, path: str) -> Iterator[Cause]:
    limit = source.get("sizeLimit")
    if limit is not None and Quantity(str(limit)) < Quantity("0"):
        yield problems.not_allowed(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _csi(source: Tree, path: str) -> Iterator[Cause]:
    driver = source.get("driver", "")
    if len(driver) > 63:
        yield problems.too_long(f"{path}.driver", 63)
    elif driver:
        yield from rules.each(names.dns_subdomain(driver.lower()), driver, f"{path}.driver")
    secret = source.get("nodePublishSecretRef")
    if secret is not None:
        yield from rules.needed(secret.get("name"), f"{path}.nodePublishSecretRef.name")


_CHECKS: Mapping[str, Callable[[Tree, str], Iterator[Cause]]] = {
    "emptyDir": _empty,
    "csi": _csi,
    "hostPath": _host_path,
    "nfs": _nfs,
    "secret": _secret,
    "configMap": _config_map,
    "downwardAPI": _downward,
    "projected": _projected,
    "ephemeral": _ephemeral,
}
