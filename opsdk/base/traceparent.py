"""The trace context of a write, as an annotation of the written object.

Upstream: kubernetes/enhancements KEP-5915 (proposed for v1.36); www.w3.org/TR/trace-context (level 1)
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["TRACEPARENT_ANNOTATION", "is_traceparent"]

TRACEPARENT_ANNOTATION: Final = "tracing.k8s.io/traceparent"
"""The key of the annotation. Its value has the format of the W3C header ``traceparent``."""

_LENGTH: Final = 55
_FORMAT: Final = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}", re.ASCII)


def is_traceparent(text: object) -> bool:
    """Whether a value is a valid ``traceparent``: 55 characters, version, trace id, span id and flags in lower case.

    Anyone who may write an object may write the annotation, so it is untrusted.

    >>> is_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4737-00f067aa0ba902b7-01")
    True
    >>> is_traceparent("00-00000000000000000000000000000000-00f067aa0ba902b7-01")
    False
    """
    return isinstance(text, str) and len(text) == _LENGTH and _FORMAT.fullmatch(text) is not None
