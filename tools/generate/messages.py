"""``messages.txt``: the protobuf messages of the served types, from their field numbers. Pure.

These are the messages of stable versions, and those of other versions that they refer to: a Job of 1.37 has a field
of a type of ``scheduling.k8s.io/v1beta1``.

A line for each message, and an indented one for each field: number, name, type, and ``*`` (repeated) or ``map``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opsdk.cli.generate.names import stability_of

Messages = Mapping[str, Sequence[Sequence[Any]]]

_LABELS = {"optional": "", "repeated": " *", "map": " map"}
_NOT_SERVED = "k8s.io.api.imagepolicy"


def render_messages(messages: Messages) -> str:
    """The messages of stable versions and what they refer to, by name."""
    return "".join(f"{line}\n" for line in message_lines(messages))


def message_lines(messages: Messages) -> Iterator[str]:
    """The lines of each message that a stable version reaches."""
    for name in sorted(_reached(messages)):
        yield f"message {name}"
        for number, field, kind, label in messages[name]:
            yield f"  {number} {field} {kind.replace(', ', ',')}{_LABELS[label]}"


def _reached(messages: Messages) -> set[str]:
    reached: set[str] = set()
    pending = [name for name in messages if stability_of(name) == "stable" and not name.startswith(_NOT_SERVED)]
    while pending:
        name = pending.pop()
        if name in messages and name not in reached:
            reached.add(name)
            package = name.rpartition(".")[0]
            pending += [full for _, _, kind, _ in messages[name] for full in _types(kind, package)]
    return reached


def _types(kind: str, package: str) -> Iterator[str]:
    """Yield the full name of the message in a field's type; a map has it as its value."""
    value = kind.removesuffix(">").rpartition(",")[2].strip()
    yield value.removeprefix(".") if "." in value else f"{package}.{value}"
