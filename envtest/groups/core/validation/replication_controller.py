"""Validation of replication controllers.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator

from envtest.groups.common import validation
from envtest.groups.common.label_selectors import selects
from envtest.groups.core.validation.pod_template import MISMATCH, template_labels, validate_template
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


def validate_replication_controller(spec: JsonObject) -> Iterator[Cause]:
    """Validate the spec of a ReplicationController."""
    yield from validation.not_negative(spec.get("minReadySeconds"), "spec.minReadySeconds")
    selector = spec.get("selector") or {}
    yield from validation.required(selector, "spec.selector")
    yield from validation.not_negative(spec.get("replicas"), "spec.replicas")
    if spec.get("template") is None:
        yield api_errors.required("spec.template")
        return
    labels = template_labels(spec)
    if selector and not selects({"matchLabels": selector}, labels):
        yield api_errors.invalid_value("spec.template.metadata.labels", labels or None, MISMATCH)
    yield from validate_template(spec["template"], "spec.template", kind="ReplicationController")
