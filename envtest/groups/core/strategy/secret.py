"""Secrets: types with their keys; plain strings become data.

Upstream: pkg/registry/core/secret/strategy.go (v1.36)
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

from envtest.data.resources import ServedResourceRow
from envtest.groups.common import validation
from envtest.groups.common.strategy import GeneratedStrategy
from envtest.groups.core.validation.config_map import validate_immutable
from envtest.groups.core.validation.secret import validate_secret
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject


class SecretStrategy(GeneratedStrategy):
    """The strategy of Secrets."""

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self.selectable = {"type": lambda obj: str(obj.get("type", ""))}

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        return list(validate_secret(obj))

    def warnings(self, context: Context, obj: JsonObject, old: JsonObject | None) -> Sequence[str]:
        """Warn about a TLS secret whose certificate does not parse."""
        if obj.get("type") != "kubernetes.io/tls" or (old is not None and old.get("data") == obj.get("data")):
            return ()
        data = obj.get("data") or {}
        for key, word in (("tls.crt", "certificate"), ("tls.key", "key")):
            if b"-----BEGIN " not in base64.b64decode(data.get(key, "")):
                return (f"tls: failed to find any PEM data in {word} input",)
        return ()

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate an update: the type is immutable; an immutable Secret does not change."""
        kind = validation.immutable_field(obj, old, "type")
        return [*kind, *validate_immutable(obj, old, ("data",)), *self.validate(context, obj)]
