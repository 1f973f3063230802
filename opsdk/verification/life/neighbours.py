"""Objects of one kind beside each other: in several namespaces, with long names, with names that look alike. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from opsdk.engine.differences import differences
from opsdk.engine.world.rest_state import RestState, subject_of
from opsdk.structured_merge.paths import get_path
from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.verification.oracles import StateDifference

__all__ = ["NAMESPACES", "Alone", "disturbed_neighbours", "left_over", "neighbours_of", "short_text"]

NAMESPACES: Final = ("verify", "verify-a", "verify-other")
"""The namespaces beside that of generated custom resources."""
_LABEL_LENGTH: Final = 63
"""The longest name that is a label value, and a name of a Service, too."""
_NAME_LENGTH: Final = 253
_ENDS: Final = ("a", "b")
_ABSENT: Final = object()
_CLAIMS: Final = "core/persistentvolumeclaims/"
_FILL: Final = "n"
_LONG_NAME: Final = re.compile(f"{_FILL}{{30,}}")


class Alone(msgspec.Struct, frozen=True):
    """What the operator makes of one object that is alone in a cluster.

    Attributes:
        name: namespace and name of the custom resource.
        key: its storage key.
        state: the state at rest.
        entries: of the containers of the doubles.
    """

    name: str
    key: str
    state: RestState
    entries: Mapping[str, int] = {}


def neighbours_of(first: JsonObject, second: JsonObject, *, namespaced: bool) -> Iterator[JsonObject]:
    """Yield custom resources with the contents of two in turns.

    Two have one name in two namespaces. Two namespaces and names give one text when they are joined. Long names differ
    in their last character: two have the longest length of a label, and two the longest length of a name.

    >>> first = {"metadata": {"name": "a", "namespace": "default"}}
    >>> [each["metadata"]["name"][-4:] for each in neighbours_of(first, first, namespaced=False)][-2:]
    ['nnna', 'nnnb']
    """
    namespace = first["metadata"].get("namespace", "")
    names = [(namespace, first["metadata"]["name"])]
    if namespaced:
        names += [(NAMESPACES[2], first["metadata"]["name"]), (NAMESPACES[0], "a-b"), (NAMESPACES[1], "b")]
    for length in (_LABEL_LENGTH, _NAME_LENGTH):
        names += [(namespace, _FILL * (length - 1) + end) for end in _ENDS]
    for number, (place, name) in enumerate(names):
        content = (first, second)[number % 2]
        metadata = {**content["metadata"], "name": name} | ({"namespace": place} if namespaced else {})
        yield {**content, "metadata": metadata}


def shared_keys(alone: Sequence[Alone]) -> frozenset[str]:
    """Return the objects that are equal for several custom resources: they belong to none of them."""
    keys: set[str] = set()
    for number, one in enumerate(alone):
        for other in alone[number + 1 :]:
            common = {key for key in one.state.objects.keys() & other.state.objects.keys() if not is_generated(key)}
            keys.update(key for key in common if one.state.objects[key] == other.state.objects[key])
    return frozenset(keys)


def disturbed_neighbours(alone: Sequence[Alone], together: RestState) -> list[StateDifference]:
    """Return where objects do not converge as each does alone.

    A value that no custom resource leads to alone may be allocated, as ports are. That of another one is a mistake.
    """
    problems = list(_collisions(alone))
    for one in alone:
        for key, states in sorted(one.state.objects.items()):
            if any(each.place.startswith(f"{key} ") for each in problems):
                continue
            texts = _differences(one, key, states, together, alone)
            problems += [StateDifference(f"{key} {text}", f"{subject_of(key)} {text}") for text in texts]
    return problems


def _collisions(alone: Sequence[Alone]) -> Iterator[StateDifference]:
    owners: dict[str, list[Alone]] = {}
    for one in alone:
        for key in one.state.objects:
            owners.setdefault(key, []).append(one)
    for key, ones in sorted(owners.items()):
        first, *others = ones
        # The server completes a generated name: each object has another one.
        if is_generated(key):
            continue
        other = next((each for each in others if each.state.objects[key] != first.state.objects[key]), None)
        if other is not None:
            text = f"{subject_of(key)} is a child of {first.name} and of {other.name}: give it another name for each"
            yield StateDifference(f"{key} collides", text)


def _differences(
    one: Alone, key: str, states: Sequence[JsonObject], together: RestState, alone: Sequence[Alone]
) -> Iterator[str]:
    present = together.objects.get(key, ())
    if is_generated(key):
        usual = sum(len(each.state.objects.get(key, ())) for each in alone)
        if len(present) != usual:
            yield f"exists {len(present)} times beside other objects, alone {usual} times in all"
        return
    if len(present) < len(states):
        yield f"of {one.name} exists {len(present)} times beside other objects, alone {len(states)} times"
        return
    for old, new in zip(states, present, strict=False):
        for each in differences(old, new):
            if any(other is not one and _has(other, each.path, each.new) for other in alone):
                yield f"of {one.name} has a value of another object: {each}"


def is_generated(key: str) -> bool:
    """Whether a key is that of all objects whose names the server completes from one prefix.

    >>> is_generated("core/configmaps/default/run-*"), is_generated("core/configmaps/default/run-1")
    (True, False)
    """
    return key.endswith("*")


def _has(other: Alone, path: str, value: JsonValue) -> bool:
    """Whether an object leads to a value at a path of any of its objects."""
    parts = path.split(".")
    states = (state for each in other.state.objects.values() for state in each)
    return value is not None and any(get_path(state, parts, _ABSENT) == value for state in states)


def left_over(
    gone: Sequence[Alone], others: Sequence[Alone], state: RestState, begin: RestState
) -> list[StateDifference]:
    """Return what is left of objects that are gone, and what is missing of the others.

    The claims of an operator that never deletes one stay with their data, as those of a StatefulSet do.

    Args:
        gone: the custom resources that were deleted.
        others: those that were not.
        state: at rest, afterwards.
        begin: the state before any custom resource. What it has belongs to the operator.
    """
    shared = shared_keys([*gone, *others])
    remaining = {key for one in others for key in one.state.objects}
    if not any(key.startswith(_CLAIMS) for key in state.deleted):
        remaining.update(key for key in state.objects if key.startswith(_CLAIMS))
    problems = list(_generated_left_over(others, state, begin, shared))
    for one in gone:
        for key in sorted(one.state.objects.keys() & state.objects.keys() - remaining - shared - begin.objects.keys()):
            text = f"{subject_of(key)} is left over after the deletion of {one.name}"
            if key == one.key:
                text = f"{subject_of(key)} never goes after its deletion: a finalizer stays"
            problems.append(StateDifference(f"{key} left over", text))
    for one in others:
        for key in sorted(one.state.objects.keys() - state.objects.keys() - shared):
            text = f"{subject_of(key)} of {one.name} is gone after the deletion of {gone[0].name}"
            problems.append(StateDifference(f"{key} is gone", text))
    return problems


def _generated_left_over(
    others: Sequence[Alone], state: RestState, begin: RestState, shared: frozenset[str]
) -> Iterator[StateDifference]:
    """Yield the generated names of which not as many objects exist as the custom resources have that are left."""
    for key in sorted(key for key in state.objects.keys() - shared - begin.objects.keys() if is_generated(key)):
        usual = sum(len(each.state.objects.get(key, ())) for each in others)
        count = len(state.objects[key])
        if usual and count != usual:
            text = f"{subject_of(key)} exists {count} times after a deletion, and those that are left have {usual}"
            yield StateDifference(f"{key} left over", text)


def short_text(text: str) -> str:
    """Return a text in which long names are short.

    >>> short_text("configmaps default/" + "n" * 62 + "a")
    'configmaps default/nnn...(62)...a'
    """
    return _LONG_NAME.sub(lambda match: f"{_FILL * 3}...({len(match[0])})...", text)
