"""Computes the desired copies. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from opsdk import LabelRequirements, ObjectMeta, PartialObjectMetadata
from opsdk.api.core.v1 import Secret

PREFIX = "secret-copier.opsdk.dev"
ROLE = f"{PREFIX}/role"
"""The label of everything that is cached: ``source``, which users write, or ``copy``."""
TARGETS = f"{PREFIX}/namespaces"
"""The annotation of a source: a label selector of namespaces. Without it, all namespaces get a copy."""
SOURCE = f"{PREFIX}/source"
"""The annotation of a copy: the namespace of its source."""


@dataclass(frozen=True, slots=True)
class CopyRequest:
    """One Secret in one namespace. A copy fails and is retried alone, and copies are written in parallel."""

    namespace: str
    name: str
    source: str


def is_source(secret: Secret) -> bool:
    """Whether a Secret is marked as a source."""
    return secret.metadata.labels.get(ROLE) == "source"


def is_desired(source: Secret, namespace: PartialObjectMetadata | None) -> bool:
    """Whether a namespace gets a copy. A terminating namespace rejects new objects.

    Raises:
        UsageError: the annotation of the source is not a label selector.
    """
    if not is_source(source) or namespace is None:
        return False
    if source.metadata.deletion_timestamp or namespace.metadata.deletion_timestamp:
        return False
    targets = LabelRequirements.parse(source.metadata.annotations.get(TARGETS, ""))
    return namespace.metadata.name != source.metadata.namespace and targets.matches(namespace.metadata.labels)


def copy_of(source: Secret, namespace: str) -> Secret:
    """Return the copy for a namespace."""
    annotations = {SOURCE: source.metadata.namespace}
    meta = ObjectMeta(name=source.metadata.name, namespace=namespace, labels={ROLE: "copy"}, annotations=annotations)
    return Secret(metadata=meta, type=source.type, data=source.data)


def requests(sources: Iterable[Secret], namespaces: Iterable[str]) -> list[CopyRequest]:
    """Return a request for every pair of a source and a namespace."""
    names = list(namespaces)
    metas = [source.metadata for source in sources]
    return [CopyRequest(name, m.name, m.namespace) for m in metas for name in names if name != m.namespace]
