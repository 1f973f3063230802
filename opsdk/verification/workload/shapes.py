"""Recognises Kubernetes' own shapes in a schema, by structure and name. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from typing import Final

from opsdk.verification.workload.schema_fields import SchemaField


class Shape(Enum):
    """A part of a custom resource that means the same in most definitions."""

    AFFINITY = "affinity"
    """Rules that attract pods to nodes and other pods."""
    CLAIM = "claim"
    """The spec of a PersistentVolumeClaim."""
    CONTAINERS = "containers"
    """The containers of a pod."""
    CRON_SCHEDULE = "cron schedule"
    """Times in cron syntax."""
    DURATION = "duration"
    """A duration such as ``30s``."""
    IMAGE = "image"
    """A reference to a container image."""
    LABELS = "labels"
    """Labels, annotations or a label selector's labels."""
    NODE_SELECTOR = "node selector"
    """Labels that nodes must have."""
    POD_SPEC = "pod spec"
    """The spec of a pod."""
    PORT = "port"
    """The number of a port."""
    PROBE = "probe"
    """A liveness, readiness or startup probe."""
    QUANTITY = "quantity"
    """An amount of a resource."""
    REFERENCE = "reference"
    """The name of another object."""
    REPLICAS = "replicas"
    """A number of pods or members."""
    RESOURCES = "resources"
    """Requests and limits of a container, or of a claim."""
    SERVICE_SPEC = "service spec"
    """The spec of a Service."""
    SERVICE_TYPE = "service type"
    """The type of a Service."""
    STORAGE_SIZE = "storage size"
    """The size of a volume."""
    TOLERATIONS = "tolerations"
    """Taints of nodes that pods tolerate."""


STRICTER: Final = frozenset(
    {
        *(Shape.AFFINITY, Shape.CLAIM, Shape.CONTAINERS, Shape.POD_SPEC, Shape.PROBE, Shape.SERVICE_SPEC),
        *(Shape.RESOURCES, Shape.TOLERATIONS),
    }
)
"""Shapes of which Kubernetes' own validation refuses values that the schemas of most definitions admit."""

TEXTS: Final = frozenset(
    {
        *(Shape.CRON_SCHEDULE, Shape.DURATION, Shape.IMAGE, Shape.QUANTITY, Shape.REFERENCE),
        *(Shape.SERVICE_TYPE, Shape.STORAGE_SIZE),
    }
)
"""Strings with a meaning that schemas do not express."""
_CRON_NAMES: Final = frozenset({"schedule", "cron", "cronschedule", "cronexpression"})
_DURATION_WORDS: Final = frozenset({"timeout", "interval", "period", "ttl", "duration", "delay"})
_LABEL_NAMES: Final = frozenset({"labels", "annotations", "matchLabels", "podLabels", "podAnnotations", "commonLabels"})
_REPLICA_NAMES: Final = frozenset(
    {"replicas", "replicaCount", "instances", "members", "nodeCount", "shards", "workers"}
)
_SIZE_WORDS: Final = frozenset({"storage", "volume", "disk", "data"})
_UNITS: Final = frozenset({"gb", "gi", "gib", "mb", "mi", "mib", "tb", "ti", "tib", "bytes"})
_QUANTITY_NAMES: Final = frozenset({"cpu", "memory", "storage", "ephemeral-storage", "sizeLimit"})
REFERENCES: Final = {
    "secret": "Secret",
    "credentials": "Secret",
    "config map": "ConfigMap",
    "storage class": "StorageClass",
    "service account": "ServiceAccount",
    "priority class": "PriorityClass",
    "runtime class": "RuntimeClass",
    "ingress class": "IngressClass",
    "issuer": "Issuer",
}
"""Kinds of referenced objects by the words of a field's name."""
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")


@lru_cache(maxsize=4096)
def words(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case.

    >>> words("tlsSecretName")
    ('tls', 'secret', 'name')
    """
    return tuple(word.lower() for word in _WORD.findall(name[:100]))


def shape_of(field: SchemaField) -> Shape | None:
    """Return the shape of a field, or None."""
    return next((shape for shape, is_one in _RECOGNISERS if is_one(field)), None)


def referenced_kind(field: SchemaField) -> str:
    """Return the kind of the object that a field names, or an empty string.

    A name is a string such as ``secretName``, or the ``name`` of an object such as ``secretRef``.
    """
    own = words(field.name)
    if not _is_string(field) or field.is_element or not own:
        return ""
    if own == ("name",) and field.parent is not None and field.parent.path:
        parent = words(field.parent.name)
        is_reference = parent[-1:] in (("ref",), ("reference",), ("selector",)) or _has(field.parent, "key")
        return _kind(parent) if is_reference or parent[-1:] in (("secret",), ("secrets",), ("credentials",)) else ""
    if own[-1] in ("name", "ref") or own[-2:] == ("storage", "class"):
        return _kind(own)
    return ""


def _kind(parts: tuple[str, ...]) -> str:
    text = " ".join(parts)
    return next((kind for spelling, kind in REFERENCES.items() if spelling in text), "")


# ------------------------------------------------------------------ structure
def _has(field: SchemaField, *names: str) -> bool:
    return all(name in field.node.properties for name in names)


def _is_string(field: SchemaField) -> bool:
    return field.node.types == ("string",) and not field.node.enum


def _is_integer(field: SchemaField) -> bool:
    return field.node.types == ("integer",) and not field.node.enum


def _is_object(field: SchemaField) -> bool:
    return field.node.types in ((), ("object",))


def _is_map_of_strings(field: SchemaField) -> bool:
    return field.node.additional is not None and field.node.additional.types == ("string",)


def _is_resources(field: SchemaField) -> bool:
    return _has(field, "requests", "limits") or (
        field.name == "resources" and _is_object(field) and field.node.preserve and not field.node.properties
    )


def _is_affinity(field: SchemaField) -> bool:
    return _has(field, "nodeAffinity") or (
        field.name == "affinity" and _is_object(field) and field.node.preserve and not field.node.properties
    )


def _is_tolerations(field: SchemaField) -> bool:
    return field.items is not None and _has(field.items, "key", "operator", "effect")


def _is_probe(field: SchemaField) -> bool:
    return _has(field, "periodSeconds") and (_has(field, "httpGet") or _has(field, "exec") or _has(field, "tcpSocket"))


def _is_containers(field: SchemaField) -> bool:
    return field.items is not None and _has(field.items, "name", "image")


def _is_claim(field: SchemaField) -> bool:
    return _has(field, "accessModes", "resources")


def _is_pod_spec(field: SchemaField) -> bool:
    return "containers" in field.properties and _is_containers(field.properties["containers"])


def _is_service_spec(field: SchemaField) -> bool:
    return _has(field, "clusterIP", "ports")


def _is_image(field: SchemaField) -> bool:
    return _is_string(field) and words(field.name)[-1:] == ("image",)


def _is_replicas(field: SchemaField) -> bool:
    return _is_integer(field) and (field.name in _REPLICA_NAMES or words(field.name)[-1:] == ("replicas",))


def _is_port(field: SchemaField) -> bool:
    return "integer" in field.node.types and not field.node.enum and words(field.name)[-1:] == ("port",)


def _is_service_type(field: SchemaField) -> bool:
    if field.node.types != ("string",):
        return False
    if field.name in ("serviceType", "svcType"):
        return True
    parent = field.parent
    return (
        field.name == "type"
        and parent is not None
        and (words(parent.name)[-1:] == ("service",) or _has(parent, "clusterIP"))
    )


def _is_cron_schedule(field: SchemaField) -> bool:
    return _is_string(field) and field.name.lower() in _CRON_NAMES


def _is_quantity(field: SchemaField) -> bool:
    textual = field.node.types in (("string",), ("integer", "string")) and not field.node.enum
    if not textual:
        return False
    parent = field.parent
    in_resources = field.is_element and parent is not None and parent.name in ("requests", "limits", "capacity", "hard")
    return in_resources or field.name in _QUANTITY_NAMES or "KMGTPE" in str(field.node.limit("pattern"))


def _is_storage_size(field: SchemaField) -> bool:
    parts = words(field.name)
    if parts[-1:] not in (("size",), ("storage",)) or field.node.types not in (("string",), ("integer", "string")):
        return False
    above = words(field.parent.name) if field.parent is not None else ()
    return bool(_SIZE_WORDS.intersection((*parts, *above))) and not field.node.enum


def is_volume(field: SchemaField) -> bool:
    """Whether a field decides the size of a volume: a claim, a quantity, or a number such as ``storageGb``."""
    if shape_of(field) in (Shape.CLAIM, Shape.STORAGE_SIZE):
        return True
    parts = [part for part in words(field.name) if part not in _UNITS]
    above = words(field.parent.name) if field.parent is not None else ()
    is_size = parts[-1:] in (["size"], ["storage"]) and not _SIZE_WORDS.isdisjoint((*parts, *above))
    return is_size and _is_integer(field)


def _is_duration(field: SchemaField) -> bool:
    return field.node.format == "duration" or (_is_string(field) and bool(_DURATION_WORDS & {*words(field.name)[-1:]}))


def _is_labels(field: SchemaField) -> bool:
    return _is_map_of_strings(field) and field.name in _LABEL_NAMES


def _is_node_selector(field: SchemaField) -> bool:
    name = words(field.name)
    return _is_map_of_strings(field) and (name[-2:] == ("node", "selector") or name[:2] == ("node", "affinity"))


_RECOGNISERS: Final[tuple[tuple[Shape, Callable[[SchemaField], bool]], ...]] = (
    (Shape.CLAIM, _is_claim),
    (Shape.RESOURCES, _is_resources),
    (Shape.AFFINITY, _is_affinity),
    (Shape.TOLERATIONS, _is_tolerations),
    (Shape.PROBE, _is_probe),
    (Shape.CONTAINERS, _is_containers),
    (Shape.POD_SPEC, _is_pod_spec),
    (Shape.SERVICE_SPEC, _is_service_spec),
    (Shape.NODE_SELECTOR, _is_node_selector),
    (Shape.LABELS, _is_labels),
    (Shape.IMAGE, _is_image),
    (Shape.REPLICAS, _is_replicas),
    (Shape.PORT, _is_port),
    (Shape.SERVICE_TYPE, _is_service_type),
    (Shape.CRON_SCHEDULE, _is_cron_schedule),
    (Shape.STORAGE_SIZE, _is_storage_size),
    (Shape.QUANTITY, _is_quantity),
    (Shape.REFERENCE, lambda field: bool(referenced_kind(field))),
    (Shape.DURATION, _is_duration),
)
"""Particular shapes first: the resources of a claim are a claim's, not a container's."""
