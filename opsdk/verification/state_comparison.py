"""Compares the states of two runs at rest. Pure.

What differs between two undisturbed runs is not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from opsdk.engine.differences import differences
from opsdk.engine.world.rest_state import RestState, subject_of
from opsdk.structured_merge.value import JsonValue
from opsdk.verification.false_conditions import without_false_conditions

__all__ = ["RECORD_NAMES", "Mask", "mask_of", "state_differences", "state_violations"]

_MAX_DIFFERENCES: Final = 5
_NOTES: Final = ("status.", "metadata.annotations", "metadata.labels")
"""Where an operator notes which generation it saw. In a spec, 1 and 2 are more likely numbers of replicas."""
RECORD_NAMES: Final = ("audit", "changelog", "former", "history", "journal", "previous")
"""Words in the names of fields that record the past on purpose: they depend on the way to a state."""
_RECORD_WORDS: Final = frozenset(RECORD_NAMES)
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


class Mask(msgspec.Struct, frozen=True, kw_only=True):
    """What differs between two undisturbed runs, and is not compared.

    Attributes:
        fields: key and path.
        counts: keys whose numbers of creations or deletions differ.
    """

    fields: frozenset[tuple[str, str]] = frozenset()
    counts: frozenset[str] = frozenset()


def mask_of(first: RestState, second: RestState) -> Mask:
    """Return what two undisturbed runs do not have in common."""
    fields = frozenset((key, path) for key, path, _ in state_differences(first, second))
    counts = frozenset(key for key in first.keys | second.keys if _counts(first, key) != _counts(second, key))
    return Mask(fields=fields, counts=counts)


def state_violations(
    reference: RestState, state: RestState, mask: Mask, *, counted: bool = True, uncertain: bool = False
) -> list[str]:
    """Return how a disturbed run differs from the reference run, when both are at rest.

    Args:
        reference: the state of the reference run.
        state: that of the disturbed run.
        mask: what is not compared.
        counted: compare how often objects were created and deleted. Fewer times are no violation: an operator
            that sees two changes at once skips the step between them.
        uncertain: compare nothing else.
    """
    texts = [
        f"state at rest: {subject_of(key)} {text}"
        for key, path, text in (() if uncertain else state_differences(reference, state))
        if (key, path) not in mask.fields
    ]
    if counted:
        texts += _more_often(reference.created, state.created, mask, "created")
        texts += _more_often(reference.deleted, state.deleted, mask, "deleted")
    return texts[:_MAX_DIFFERENCES]


def _more_often(usual: Mapping[str, int], counts: Mapping[str, int], mask: Mask, word: str) -> list[str]:
    return [
        f"creations and deletions: {subject_of(key)} was {word} {count} times, "
        f"without a fault {usual.get(key, 0)} times"
        for key, count in sorted(counts.items())
        if key not in mask.counts and count > usual.get(key, 0)
    ]


def _counts(state: RestState, key: str) -> tuple[int, int]:
    return state.created.get(key, 0), state.deleted.get(key, 0)


def state_differences(
    first: RestState, second: RestState, usually: str = "without a fault"
) -> Iterator[tuple[str, str, str]]:
    """Yield key, path and text of what differs. A condition that is False is like one that does not exist.

    A field that records the past by its name is not compared: see `RECORD_NAMES`.

    Args:
        first: the state that is right.
        second: the other one.
        usually: says which state is right.
    """
    right = without_false_conditions(first.objects, second.objects)
    other = without_false_conditions(second.objects, first.objects)
    generations = _generations(first, second)
    for key in sorted(right.keys() | other.keys()):
        before, after = right.get(key, []), other.get(key, [])
        if len(before) != len(after):
            yield key, "", f"exists {len(after)} times, {usually} {len(before)} times"
            continue
        for old, new in zip(before, after, strict=True):
            for difference in differences(old, new):
                pair = (_number(difference.old), _number(difference.new))
                if is_record(difference.path):
                    continue
                if pair not in generations or not difference.path.startswith(_NOTES):
                    yield key, difference.path, str(difference)


def is_record(path: str) -> bool:
    """Whether the name of a field, or of one above it, says that it records the past.

    >>> is_record("data.textHistory"), is_record("metadata.annotations.a.com/previous-text"), is_record("data.text")
    (True, True, False)
    """
    return not _RECORD_WORDS.isdisjoint(word.lower() for word in _WORD.findall(path))


def _generations(first: RestState, second: RestState) -> frozenset[tuple[int | None, int | None]]:
    """Return the generations of the same objects, where they differ.

    A status or an annotation may note the generation, under any name. It counts the changes on the way to the state.
    """
    both = first.generations.keys() & second.generations.keys()
    pairs = ((first.generations[key], second.generations[key]) for key in both)
    return frozenset((one, other) for one, other in pairs if one != other)


def _number(value: JsonValue) -> int | None:
    if isinstance(value, str) and value.isdecimal():
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
