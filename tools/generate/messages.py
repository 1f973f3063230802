"""``messages.txt``: the protobuf messages of the served types, from their field numbers. Pure.

A line for each message, and an indented one for each field: number, name, type, and ``*`` (repeated) or ``map``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Messages = Mapping[str, Sequence[Sequence[Any]]]

_LABELS = {"optional": "", "repeated": " *", "map": " map"}
_NOT_SERVED = "k8s.io.api.imagepolicy"


def render_messages(messages: Messages) -> str:
    """The messages of stable versions, by name."""
    return "".join(f"{line}\n" for line in message_lines(messages))


def message_lines(messages: Messages) -> Iterator[str]:
    """The lines of each message of a stable version."""
    for name, fields in sorted(messages.items()):
        if "alpha" in name or "beta" in name or name.startswith(_NOT_SERVED):
            continue
        yield f"message {name}"
        for number, field, kind, label in fields:
            yield f"  {number} {field} {kind.replace(', ', ',')}{_LABELS[label]}"
