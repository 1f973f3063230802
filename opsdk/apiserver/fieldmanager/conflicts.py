"""Conflict errors of server-side apply.

Upstream: k8s.io/apimachinery/pkg/util/managedfields/internal/conflict.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from opsdk.apiserver.fieldmanager.managed_fields import UPDATE, ManagerKey
from opsdk.errors import Cause, ConflictError, Details
from opsdk.structured_merge.fieldpath import FieldSet, Path, format_path
from opsdk.structured_merge.go_format import go_quote


class ApplyConflict(msgspec.Struct, frozen=True):
    """Another manager owns this field with another value."""

    key: ManagerKey
    path: Path


def conflicts_of(sets: Mapping[ManagerKey, FieldSet]) -> list[ApplyConflict]:
    """Return one conflict for each field, sorted by manager."""
    return [ApplyConflict(key, path) for key in sorted(sets) for path in sets[key]]


def describe_manager(key: ManagerKey) -> str:
    """Return a manager's name in conflict messages."""
    text = go_quote(key.manager)
    if key.subresource:
        text += f" with subresource {go_quote(key.subresource)}"
    if key.operation == UPDATE:
        text += f" using {key.api_version}"
    return text


def conflict_error(conflicts: Iterable[ApplyConflict]) -> ConflictError:
    """Return the 409 with one cause for each conflict."""
    unique_conflicts = list(conflicts)
    causes = tuple(
        Cause(
            reason="FieldManagerConflict",
            message=f"conflict with {describe_manager(conflict.key)}",
            field=format_path(conflict.path),
        )
        for conflict in unique_conflicts
    )
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    else:
        lines: list[str] = []
        for key in sorted({conflict.key for conflict in unique_conflicts}):
            lines.append(f"conflicts with {describe_manager(key)}:")
            lines += [f"- {format_path(conflict.path)}" for conflict in unique_conflicts if conflict.key == key]
        message = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return ConflictError(message, details=Details(causes=causes))
