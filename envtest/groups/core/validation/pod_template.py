"""Validation of pod templates and of the selectors that must match them.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator

from envtest.groups.common.label_selectors import check_label_selector, is_empty, is_valid, selects
from envtest.groups.core.validation.pod import validate_pod_spec
from envtest.groups.core.validation.pod_annotations import validate_pod_annotations
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry import metadata
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

MISMATCH = "`selector` does not match template `labels`"


def template_labels(spec: JsonObject) -> JsonObject:
    """Return the labels of a template."""
    labels: JsonObject = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return labels


# ------------------------------------------------------------------ templates
def validate_template(template: JsonObject, path: str, *, kind: str) -> Iterator[Cause]:
    """Validate the template of a workload that restarts its pods."""
    yield from validate_pod_template(template, path)
    yield from validate_keeps_running(template, path, kind=kind)


def validate_keeps_running(template: JsonObject, path: str, *, kind: str) -> Iterator[Cause]:
    """Validate that the restart policy is Always and that activeDeadlineSeconds is not set."""
    spec = template.get("spec") or {}
    if spec.get("restartPolicy") != "Always":
        yield api_errors.unsupported(f"{path}.spec.restartPolicy", spec.get("restartPolicy", ""), ["Always"])
    if spec.get("activeDeadlineSeconds") is not None:
        text = f"activeDeadlineSeconds in {kind} is not Supported"
        yield api_errors.not_allowed(f"{path}.spec.activeDeadlineSeconds", text)


def validate_pod_template(template: JsonObject, path: str) -> Iterator[Cause]:
    """Validate any pod template."""
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    yield from validate_template_metadata(meta, spec, path)
    yield from validate_pod_spec(spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        yield api_errors.not_allowed(f"{path}.spec.ephemeralContainers", text)


def validate_template_metadata(meta: JsonObject, spec: JsonObject, path: str) -> Iterator[Cause]:
    """Validate labels and annotations of a template."""
    yield from metadata.labels(meta.get("labels") or {}, f"{path}.labels")
    yield from metadata.annotation_causes(meta.get("annotations") or {}, f"{path}.annotations")
    yield from validate_pod_annotations(meta.get("annotations") or {}, spec, f"{path}.annotations")


def validate_selector(selector: JsonObject | None, path: str, *, word: str) -> Iterator[Cause]:
    """Validate a required, nonempty selector."""
    if selector is None:
        yield api_errors.required(path)
        return
    yield from check_label_selector(selector or {}, path)
    if is_empty(selector):
        yield api_errors.invalid_value(path, selector, f"empty selector is invalid for {word}")


def validate_selected_template(spec: JsonObject, *, kind: str) -> Iterator[Cause]:
    """Validate a template whose labels the selector must match."""
    if not is_valid(spec.get("selector")):
        yield api_errors.invalid_value("spec.selector", spec["selector"], "invalid label selector")
        return
    yield from validate_selected_labels(spec)
    yield from validate_template(spec.get("template") or {}, "spec.template", kind=kind)


def validate_selected_labels(spec: JsonObject) -> Iterator[Cause]:
    """Validate that the selector matches the template's labels."""
    selector, labels = spec.get("selector"), template_labels(spec)
    if selector is None or (not is_empty(selector) and not selects(selector, labels)):
        yield api_errors.invalid_value("spec.template.metadata.labels", labels or None, MISMATCH)
