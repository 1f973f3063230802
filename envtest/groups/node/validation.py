"""Validation of RuntimeClasses.

Upstream: pkg/apis/node/validation (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from envtest.codec.go_structs import Shape, as_go
from envtest.groups.common import validation
from envtest.groups.core.validation.container import validate_resources
from envtest.groups.core.validation.pod import validate_tolerations
from opsdk.apiserver import api_errors
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_TOLERATION: Final[Shape] = {"Key": "", "Operator": "", "Value": "", "Effect": "", "TolerationSeconds": None}


# ------------------------------------------------------------------ runtimes
def validate_runtime(obj: JsonObject) -> Iterator[Cause]:
    """Validate a RuntimeClass."""
    handler = obj.get("handler", "")
    if not handler:
        yield api_errors.required("handler")
    else:
        yield from validation.label(handler, "handler")
    fixed = (obj.get("overhead") or {}).get("podFixed")
    if fixed:
        yield from validate_resources({"limits": fixed}, "overhead")
    scheduling = obj.get("scheduling") or {}
    yield from validation.labels(scheduling.get("nodeSelector") or {}, "scheduling.nodeSelector")
    tolerations = scheduling.get("tolerations") or []
    yield from validate_tolerations(tolerations, "scheduling.tolerations")
    for index, toleration in enumerate(tolerations):
        if toleration in tolerations[:index]:
            yield api_errors.duplicate(f"scheduling.tolerations[{index}]", as_go(_TOLERATION, toleration))


def validate_runtime_update(obj: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """Validate an update: the handler is immutable."""
    yield from validate_runtime(obj)
    yield from validation.immutable_field(obj, old, "handler")
