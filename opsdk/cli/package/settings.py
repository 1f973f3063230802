"""Container settings in ``[tool.opsdk]``: environment variables, resources, replicas. Pure.

Upstream: k8s.io/api/core/v1 types.go (EnvVar, ResourceRequirements; v1.36)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from opsdk.apimachinery.quantity import Quantity
from opsdk.errors import UsageError
from opsdk.structured_merge.value import JsonObject

_VARIABLE = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
# Source of a variable -> (required keys, optional keys). All are text but `optional`.
_SOURCES = {
    "secretKeyRef": ({"name", "key"}, {"optional"}),
    "configMapKeyRef": ({"name", "key"}, {"optional"}),
    "fieldRef": ({"fieldPath"}, {"apiVersion"}),
}
_ENV_FORMAT = '"text" or {secretKeyRef = {name = "...", key = "..."}}'
_DEFAULT_RESOURCES: JsonObject = {"requests": {"cpu": "10m", "memory": "96Mi"}, "limits": {"memory": "256Mi"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSettings:
    """Settings of the operator's container.

    Attributes:
        env: items of the container's ``env``, in the order of the table.
        resources: requests and limits. The default suits an operator with some thousand objects in its cache.
        replicas: number of pods. One is the leader, the others are standbys.
    """

    env: tuple[JsonObject, ...] = ()
    resources: JsonObject = field(default_factory=lambda: _DEFAULT_RESOURCES)
    replicas: int = 2


def container_settings(table: Mapping[str, Any]) -> ContainerSettings:
    """Return the settings of the keys ``env``, ``resources`` and ``replicas`` of a table; other keys are ignored.

    Raises:
        UsageError: a value has the wrong form; the message names the key and the form to write.

    >>> container_settings({"env": {"REGION": "eu"}, "replicas": 3})
    ContainerSettings(env=({'name': 'REGION', 'value': 'eu'},), resources={...}, replicas=3)
    """
    replicas = table.get("replicas", 2)
    if isinstance(replicas, bool) or not isinstance(replicas, int) or replicas < 0:
        raise UsageError(f"replicas = {replicas!r}: write a number, 0 or more")
    env = table.get("env", {})
    if not isinstance(env, dict):
        raise UsageError(f"env = {env!r}: write a table of NAME = {_ENV_FORMAT}")
    return ContainerSettings(
        env=tuple(_variable(name, value) for name, value in env.items()),
        resources=_resources(table["resources"]) if "resources" in table else _DEFAULT_RESOURCES,
        replicas=replicas,
    )


def _variable(name: str, value: object) -> JsonObject:
    """Return a container's environment variable. Raises `UsageError`."""
    if not _VARIABLE.fullmatch(name):
        raise UsageError(f"env.{name}: a name has letters, digits, - . and _, and begins with no digit")
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
            raise UsageError(f"env.{name}.{source}.{key} = {item!r}: write {'true' if key == 'optional' else 'text'}")
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
