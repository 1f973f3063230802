"""Settings of the workload in ``[tool.opsdk]``: variables, resources, replicas, scheduling, namespaces. Pure.

Upstream: k8s.io/api/core/v1 types.go (EnvVar, ResourceRequirements, PodSpec; v1.36)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from opsdk.apimachinery.model import decode_hook, to_builtins
from opsdk.apimachinery.quantity import Quantity
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject, JsonValue

_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
# Source of a variable -> (required keys, optional keys). All are text but `optional`.
_SOURCES = {
    "secretKeyRef": ({"name", "key"}, {"optional"}),
    "configMapKeyRef": ({"name", "key"}, {"optional"}),
    "fieldRef": ({"fieldPath"}, {"apiVersion"}),
}
_ENV_FORMAT = '"text" or {secretKeyRef = {name = "...", key = "..."}}'
POD_FIELDS: JsonObject = {
    "affinity": {},
    "imagePullSecrets": [],
    "nodeSelector": {},
    "priorityClassName": "",
    "tolerations": [],
    "topologySpreadConstraints": [],
}
"""Fields of a PodSpec that ``[tool.opsdk.pod]`` may have, with their empty values."""
SETTINGS_KEYS = ("env", "resources", "replicas", "pod", "watch-namespaces", "webhook-replicas")
"""Keys of ``[tool.opsdk]`` that `container_settings` reads."""
# An RFC 1123 label.
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DEFAULT_RESOURCES: JsonObject = {"requests": {"cpu": "10m", "memory": "96Mi"}, "limits": {"memory": "256Mi"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSettings:
    """Settings of the operator's container.

    Attributes:
        env: items of the container's ``env``, in the order of the table.
        resources: requests and limits. The default suits an operator with a few thousand objects in its cache.
        replicas: number of pods. One is the leader, the others are standbys.
        pod: fields of the pod template's spec, those of `POD_FIELDS`.
        watch_namespaces: the operator caches and may read these namespaces only; empty for all.
        webhook_replicas: number of pods of a Deployment that serves webhooks only; 0: the operator's pods serve them.
    """

    env: tuple[JsonObject, ...] = ()
    resources: JsonObject = field(default_factory=lambda: _DEFAULT_RESOURCES)
    replicas: int = 2
    pod: JsonObject = field(default_factory=dict)
    watch_namespaces: tuple[str, ...] = ()
    webhook_replicas: int = 0


def container_settings(table: Mapping[str, Any]) -> ContainerSettings:
    """Return the settings of the keys `SETTINGS_KEYS` of a table; other keys are ignored.

    Raises:
        UsageError: a value has the wrong form; the message names the key and the form to write.

    >>> container_settings({"env": {"REGION": "eu"}, "replicas": 3})
    ContainerSettings(env=({'name': 'REGION', 'value': 'eu'},), resources={...}, replicas=3, ...)
    """
    env = table.get("env", {})
    if not isinstance(env, dict):
        raise UsageError(f"env = {env!r}: write a table of NAME = {_ENV_FORMAT}")
    return ContainerSettings(
        env=tuple(_variable(name, value) for name, value in env.items()),
        resources=_resources(table["resources"]) if "resources" in table else _DEFAULT_RESOURCES,
        replicas=_count(table, "replicas", 2),
        pod=_pod(table.get("pod", {})),
        watch_namespaces=_namespaces(table.get("watch-namespaces", [])),
        webhook_replicas=_count(table, "webhook-replicas", 0),
    )


def _count(table: Mapping[str, Any], key: str, default: int) -> int:
    count = table.get(key, default)
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise UsageError(f"{key} = {count!r}: write a number, 0 or more")
    return count


def _namespaces(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) and _NAMESPACE.fullmatch(name) for name in value):
        raise UsageError(f'watch-namespaces = {value!r}: write a list of namespaces, such as ["shop", "billing"]')
    return tuple(value)


def _pod(value: object) -> JsonObject:
    """Return fields of a pod's spec, checked with the class of the API. Raises `UsageError`."""
    if not isinstance(value, dict) or not value.keys() <= POD_FIELDS.keys():
        wrong = next((key for key in value if key not in POD_FIELDS), "") if isinstance(value, dict) else ""
        raise UsageError(f"pod{'.' * bool(wrong)}{wrong}: write a table with {', '.join(POD_FIELDS)}")
    from opsdk.api.core.v1 import PodSpec  # noqa: PLC0415 - start-up time: most projects have no such table

    secrets = value.get("imagePullSecrets", [])
    if isinstance(secrets, list) and all(isinstance(name, str) for name in secrets):
        value = {**value, "imagePullSecrets": [{"name": name} for name in secrets]}
    try:
        decoded: JsonObject = to_builtins(msgspec.convert(value, PodSpec, dec_hook=decode_hook))
    except msgspec.ValidationError as error:
        raise UsageError(f"pod: {error}") from error
    if unknown := next(_unknown_fields(value, decoded, "pod"), ""):
        raise UsageError(f"{unknown}: a PodSpec has no such field")
    return {name: part for name, part in value.items() if part != POD_FIELDS[name]}


def _unknown_fields(given: JsonValue, known: JsonValue, path: str) -> Iterator[str]:
    """Yield the paths that a class dropped. Empty values are not unknown fields."""
    if isinstance(given, dict) and isinstance(known, dict):
        for name, value in given.items():
            if name not in known and value not in ("", 0, False, [], {}, None):
                yield f"{path}.{name}"
            else:
                yield from _unknown_fields(value, known.get(name), f"{path}.{name}")
    elif isinstance(given, list) and isinstance(known, list):
        for index, (one, other) in enumerate(zip(given, known, strict=False)):
            yield from _unknown_fields(one, other, f"{path}[{index}]")


def _variable(name: str, value: object) -> JsonObject:
    """Return a container's environment variable. Raises `UsageError`."""
    if not _VARIABLE.fullmatch(name):
        raise UsageError(f"env.{name}: a name has letters, digits, - . and _, and does not begin with a digit")
    if isinstance(value, str):
        return {"name": name, "value": value}
    if not isinstance(value, dict) or len(value) != 1 or (source := next(iter(value))) not in _SOURCES:
        raise UsageError(f"env.{name} = {value!r}: write {_ENV_FORMAT}; other sources are configMapKeyRef and fieldRef")
    required, optional = _SOURCES[source]
    reference = value[source]
    keys = set(reference) if isinstance(reference, dict) else set()
    if not required <= keys <= required | optional:
        raise UsageError(f"env.{name}.{source} = {reference!r}: write {', '.join(sorted(required))}")
    for key, item in reference.items():
        if not isinstance(item, bool if key == "optional" else str) or item == "":
            raise UsageError(
                f"env.{name}.{source}.{key} = {item!r}: write {'true' if key == 'optional' else 'a string'}"
            )
    return {"name": name, "valueFrom": {source: dict(reference)}}


def _resources(value: object) -> JsonObject:
    if not isinstance(value, dict) or not value.keys() <= {"requests", "limits"}:
        raise UsageError(f"resources = {value!r}: write the tables requests and limits")
    for part, quantities in value.items():
        if not isinstance(quantities, dict):
            raise UsageError(f"resources.{part} = {quantities!r}: write a table such as {{cpu = '10m'}}")
        for name, text in quantities.items():
            _quantity(f"resources.{part}.{name}", text)
    limits = value.get("limits", {})
    for name, text in value.get("requests", {}).items():
        if name in limits and Quantity(text) > Quantity(limits[name]):
            raise UsageError(f"resources.requests.{name} = {text!r} exceeds the limit {limits[name]!r}")
    return {part: {name: str(text) for name, text in quantities.items()} for part, quantities in value.items()}


def _quantity(key: str, text: object) -> None:
    if not isinstance(text, str | int | float) or isinstance(text, bool):
        raise UsageError(f"{key} = {text!r}: write a quantity such as '10m' or '96Mi'")
    try:
        Quantity(text)
    except ValueError as error:
        raise UsageError(f"{key} = {text!r}: {error}") from error
