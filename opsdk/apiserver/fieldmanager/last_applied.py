"""Migrates ``kubectl apply`` from client-side to server-side apply.

Client-side apply stores the configuration in an annotation. On the first server-side apply, kubectl owns the fields of
that annotation, so they cause no conflict. Later applies update the annotation while it exists.

Upstream: k8s.io/apimachinery/pkg/util/managedfields/internal/lastappliedmanager.go, lastappliedupdater.go (v1.36).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from opsdk.structured_merge.fieldpath import EMPTY, FieldSet
from opsdk.structured_merge.paths import get_path
from opsdk.structured_merge.schema import Schema
from opsdk.structured_merge.typed import compare, to_field_set
from opsdk.structured_merge.value import JsonObject, JsonValue

MANAGER = "kubectl"
"""The only manager for which this is done."""

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"


def last_applied(obj: Mapping[str, JsonValue]) -> JsonObject | None:
    """The configuration in the annotation, or None."""
    text = get_path(obj, ["metadata", "annotations", ANNOTATION], None)
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None  # another client's format: ignored
    return value if isinstance(value, dict) else None


def own_fields(live: Mapping[str, JsonValue], shape: Schema, api_version: str) -> FieldSet:
    """The fields that the annotation accounts for: set there, and still the same in the live object."""
    config = last_applied(live)
    if config is None or config.get("apiVersion") != api_version:
        return EMPTY
    change = compare(config, live, shape)
    return to_field_set(config, shape).difference(change.modified).difference(change.removed)


def renew(obj: Mapping[str, JsonValue], config: Mapping[str, JsonValue]) -> JsonObject:
    """`obj` with `config` in the annotation, if it has the annotation."""
    annotations = get_path(obj, ["metadata", "annotations"], None)
    if not isinstance(annotations, dict) or ANNOTATION not in annotations:
        return dict(obj)
    # The annotation does not contain itself.
    metadata = dict(config.get("metadata") or {})
    if isinstance(metadata.get("annotations"), dict):
        metadata["annotations"] = {name: value for name, value in metadata["annotations"].items() if name != ANNOTATION}
    applied = {**config, "metadata": metadata}
    text = json.dumps(applied, separators=(",", ":"), sort_keys=True, ensure_ascii=False) + "\n"
    return {**obj, "metadata": {**obj["metadata"], "annotations": {**annotations, ANNOTATION: text}}}
