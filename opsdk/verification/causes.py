"""Which code wrote what a report names, from a run that is repeated with the senders of its writes. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from opsdk.engine.world.exchange import Exchange
from opsdk.engine.world.outcome import Outcome
from opsdk.engine.world.senders import Sender
from opsdk.verification.disturbances import WRITES, Disturbance

__all__ = ["LAST_WRITE", "Cause", "cause_lines", "causes_of"]

_SUBJECT: Final = re.compile(
    # Begins at the begin of a word, so that a long one is scanned once.
    r"(?<![a-z0-9.-])(?P<resource>[a-z]++)(?:\.[a-z0-9.-]++)? "
    r"(?:(?P<namespace>[a-z0-9-]++)/)?(?P<name>[a-z0-9][a-z0-9.-]*+)"
)
_MAX_READS: Final = 8
_MAX_CAUSES: Final = 3
LAST_WRITE: Final = "the last write"
"""The role of a write where none is one of what the violations name."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """A write that leads to a violation, and the code that sent it.

    Attributes:
        role: of the write in the run, in words.
        request: method and path.
        sender: the code.
    """

    role: str
    request: str
    sender: Sender

    def shortened(self, short: Callable[[str], str]) -> Cause:
        """Return the cause with shorter texts."""
        sender = replace(self.sender, reads=tuple(map(short, self.sender.reads)))
        return Cause(role=short(self.role), request=short(self.request), sender=sender)

    def lines(self) -> Iterator[str]:
        """Yield the cause for readers."""
        yield f"{self.role}: {self.request}"
        yield f"  sent by {self.sender}"
        yield from (f"  after it had read {each}" for each in self.sender.reads[:_MAX_READS])


def causes_of(outcome: Outcome, violations: Sequence[str], disturbance: Disturbance | None = None) -> list[Cause]:
    """Return the disturbed write, and the last write of each object that the violations name: one for a line of code.

    Without one of them, the last write of the run counts.

    Args:
        outcome: of a run with the senders of its writes.
        violations: what is wrong.
        disturbance: of the run.
    """
    chosen: dict[int, str] = {}
    if disturbance is not None and disturbance.kind in WRITES and disturbance.number in outcome.senders:
        chosen[disturbance.number] = "the disturbed write"
    for violation in violations:
        for match in _SUBJECT.finditer(violation):
            numbers = [n for n in outcome.senders if _is_of(outcome.writes[n - 1], match)]
            if numbers:
                chosen.setdefault(numbers[-1], f"the last write of {match[0]}")
                break
    if not chosen and outcome.senders:
        chosen[max(outcome.senders)] = LAST_WRITE
    causes: dict[str, Cause] = {}
    for number, role in sorted(chosen.items()):
        write, sender = outcome.writes[number - 1], outcome.senders[number]
        causes.setdefault(str(sender), Cause(role=role, request=f"{write.method} {write.path}", sender=sender))
    return list(causes.values())[:_MAX_CAUSES]


def cause_lines(causes: Sequence[Cause]) -> Iterator[str]:
    """Yield causes for readers."""
    if causes:
        yield "The code:"
        yield from (f"  {line}" for cause in causes for line in cause.lines())


def _is_of(write: Exchange, subject: re.Match[str]) -> bool:
    """Whether a write is one of the object that a violation names: a creation has the name in its body."""
    namespace = f"/namespaces/{subject['namespace']}" if subject["namespace"] else ""
    collection, resource = f"{namespace}/{subject['resource']}", subject["resource"]
    path = f"{collection}/{subject['name']}"
    if write.path.endswith(path) or f"{path}/" in write.path:
        return True
    is_creation = write.method == "POST" and write.path.endswith(collection) and bool(resource)
    return is_creation and f'"{subject["name"]}"'.encode() in write.body
