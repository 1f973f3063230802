"""Validation of namespaces: finalizers of their spec.

Upstream: pkg/apis/core/validation/validation.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envtest.groups.common import validation
from opsdk.apimachinery.validation import qualified_name
from opsdk.apiserver import api_errors
from opsdk.errors import Cause


def validate_finalizers(finalizers: Sequence[str], path: str) -> Iterator[Cause]:
    """Validate that finalizers are standard or fully qualified names."""
    for name in finalizers:
        yield from validation.each(qualified_name(name), name, path)
        if "/" not in name and name not in ("kubernetes", "orphan", "foregroundDeletion"):
            text = "name is neither a standard finalizer name nor is it fully qualified"
            yield api_errors.invalid_value(path, name, text)
