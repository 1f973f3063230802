"""Errors that admission plugins return.

Upstream: k8s.io/apiserver/pkg/admission/errors.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.apiserver import api_errors
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.errors import Cause, ForbiddenError


def name_of(attributes: Attributes) -> str:
    """Return the object's name for error messages, or its generateName."""
    meta = (attributes.obj or {}).get("metadata") or {}
    return attributes.name or meta.get("name") or meta.get("generateName") or "Unknown"


def refused(attributes: Attributes, reason: str, *, causes: tuple[Cause, ...] = ()) -> ForbiddenError:
    """Return a 403 with the reason."""
    return api_errors.forbidden(attributes.served.info, name_of(attributes), reason, causes=causes)


def together(texts: Sequence[str]) -> str:
    """Join the distinct reasons into one string."""
    unique_texts = list(dict.fromkeys(texts))
    return unique_texts[0] if len(unique_texts) == 1 else f"[{', '.join(unique_texts)}]"
