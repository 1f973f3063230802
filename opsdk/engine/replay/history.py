"""What others than the operator changed after a place of a recording. Pure.

A version of an object is the operator's if one of its writes made it: the response has the resource version, and the
managedFields have no other writer since the version before. What remains is the history of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import msgspec

from opsdk.engine.foreign_changes import ForeignAction, ForeignChange
from opsdk.engine.masking import DELETION, SERVER_SET, without_metadata
from opsdk.engine.ownership import own_part
from opsdk.engine.replay.sightings import ObjectSightings, Sighting, Sightings, sightings_of
from opsdk.engine.replay.timeline import Timeline
from opsdk.engine.tree_changes import TreeChange, change_between, without_fields
from opsdk.engine.writes import is_manager_of
from opsdk.recording.files import RecordingError
from opsdk.recording.records import ExchangeBegan
from opsdk.structured_merge.equality import deep_equal
from opsdk.structured_merge.fieldpath import FieldSet
from opsdk.structured_merge.value import JSON_ERRORS, JsonObject, JsonValue

__all__ = ["foreign_changes"]

_SERVER_SET: Final = SERVER_SET | DELETION
_NOTHING: Final = TreeChange({}, {})
_COLLECTION_SECONDS: Final = 60.0
"""How much later than the deletion of an owner that of a dependent may come, which the garbage collector makes."""


def foreign_changes(
    timeline: Timeline, *, objects: Iterable[JsonObject], after: int, since: float, until: float | None = None
) -> Sequence[ForeignChange]:
    """Return what others changed, in the order in which the operator saw it.

    Args:
        timeline: of the recording, which no replay has used up.
        objects: in the caches of the operator at the place.
        after: the iteration of the place.
        since: seconds of the event loop at the place; changes have their times from then on.
        until: seconds of the event loop, after which changes are left out; None for the end of the recording.

    Raises:
        RecordingError: a message has an object that no API server sends.
    """
    state = {str(obj["metadata"].get("uid")): obj for obj in objects}
    try:
        sightings = sightings_of(timeline)
        history = _History(timeline, sightings, after)
        moments = [
            moment for each in sightings.objects.values() for moment in history.of_object(each, state.get(each.uid))
        ]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise RecordingError(
            f"the recording has an object that no API server sends, so what others did is not known: {error!r}; "
            "plan the state alone: opsdk replay --save, then opsdk plan --snapshot"
        ) from error
    end = timeline.time_of(timeline.last_iteration) if until is None else until
    moments.sort(key=lambda each: (each.iteration, each.revision))
    return [
        moment.change(round(max(time - since, 0.0), 6))
        for moment in moments
        if (time := timeline.time_of(moment.iteration)) <= end
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """A change, with the iteration in which the operator saw it.

    Attributes:
        iteration: of the event loop.
        revision: of the change, for the order within an iteration.
        action: what happened.
        tree: the object.
        manager: that did it.
        fields: that an update touches.
    """

    iteration: int
    revision: int
    action: ForeignAction
    tree: JsonObject
    manager: str = ""
    fields: TreeChange = _NOTHING

    def change(self, seconds: float) -> ForeignChange:
        """Return the change at a time."""
        metadata = self.tree["metadata"]
        return ForeignChange(
            seconds=seconds,
            action=self.action,
            api_version=str(self.tree.get("apiVersion", "")),
            kind=str(self.tree.get("kind", "")),
            namespace=str(metadata.get("namespace") or ""),
            name=str(metadata["name"]),
            manager=self.manager,
            generation=int(metadata.get("generation") or 0),
            before=self.fields.before,
            after=self.fields.after,
        )


class _History:
    """Finds the changes of others.

    Args:
        timeline: of the recording.
        sightings: all of its versions of objects.
        after: the iteration of the place.
    """

    def __init__(self, timeline: Timeline, sightings: Sightings, after: int) -> None:
        self._timeline, self._objects, self._after = timeline, sightings.objects, after
        self._managers = {timeline.began.operator, *sightings.managers}
        for each in sightings.objects.values():
            self._managers |= set(_certain_managers(each))

    def of_object(self, sightings: ObjectSightings, known: JsonObject | None) -> Iterator[_Moment]:
        """Yield what others did to an object after the place.

        Args:
            sightings: of the object.
            known: the object in the caches at the place; None without one.
        """
        versions: Sequence[Sighting] = [
            each for each in sightings.ordered() if each.event is not None or each.revision in sightings.written
        ]
        if known is not None:
            revision = str(known["metadata"].get("resourceVersion", ""))
            versions = [each for each in versions if not revision.isdecimal() or each.revision > int(revision)]
        else:
            versions = self._since_removal(versions)
        current = known
        for version, arrival in zip(versions, self._arrivals(versions), strict=True):
            if version.tree is None:
                if current is not None and arrival is not None:
                    yield from self._removal(sightings, current, version, arrival)
            elif arrival is not None:
                if current is None:
                    yield from self._creation(sightings, version, arrival)
                else:
                    yield from self._update(sightings, current, version, arrival)
            current = version.tree

    def _since_removal(self, versions: Sequence[Sighting]) -> Sequence[Sighting]:
        """Return the versions of an object that no cache had at the place: only the newest one before it counts."""
        before = [each for each in versions if each.first <= self._after]
        later = [each for each in versions if each.first > self._after]
        return [*before[-1:], *later] if before and before[-1].tree is not None else later

    def _arrivals(self, versions: Sequence[Sighting]) -> Sequence[int | None]:
        """Return when the operator saw each version, or the first later one that shows its fields."""
        arrivals: list[int | None] = []
        first: int | None = None
        for version in reversed(versions):
            if version.event is not None:
                arrival = max(version.event, self._after)
                first = arrival if first is None else min(first, arrival)
            arrivals.append(first)
        return arrivals[::-1]

    # -------------------------------------------------------------- changes
    def _creation(self, sightings: ObjectSightings, version: Sighting, arrival: int) -> Iterator[_Moment]:
        tree = version.tree
        assert tree is not None
        writers = _writers(None, tree)
        if sightings.created or (writers and all(map(self._is_own, writers)) and not version.initial):
            return
        fields = TreeChange({}, _shown(tree))
        if not version.initial:
            fields = without_fields(fields, {}, own_part(tree, self._managers))
        yield _Moment(
            iteration=arrival,
            revision=version.revision,
            action=ForeignAction.CREATE,
            tree=tree,
            manager=next((each for each in writers if not self._is_own(each)), ""),
            fields=TreeChange({}, _named(fields.after, tree)),
        )
        if "deletionTimestamp" in tree["metadata"]:
            yield from self._deletion(sightings, tree, version.revision, arrival)

    def _update(
        self, sightings: ObjectSightings, current: JsonObject, version: Sighting, arrival: int
    ) -> Iterator[_Moment]:
        tree = version.tree
        assert tree is not None
        if "deletionTimestamp" in tree["metadata"] and "deletionTimestamp" not in current["metadata"]:
            yield from self._deletion(sightings, tree, version.revision, arrival)
        fields, writers = self._foreign_fields(sightings, current, version), _writers(current, tree)
        if fields:
            yield _Moment(
                iteration=arrival,
                revision=version.revision,
                action=ForeignAction.UPDATE,
                tree=tree,
                manager=next((each for each in writers if not self._is_own(each)), ""),
                fields=fields,
            )

    def _foreign_fields(self, sightings: ObjectSightings, current: JsonObject, version: Sighting) -> TreeChange:
        """Return the fields that others changed between two versions."""
        tree = version.tree
        assert tree is not None
        fields, writers = change_between(_shown(current), _shown(tree)), _writers(current, tree)
        own = [each for each in writers if self._is_own(each)]
        written = sightings.written.get(version.revision)
        if writers and not own:
            return _NOTHING if written is not None and _sends(written, fields) else fields
        if len(own) == len(writers) and (writers or written is not None):
            return _NOTHING
        foreign = without_fields(fields, own_part(current, self._managers), own_part(tree, self._managers))
        # The time of managedFields has seconds: a second write within one leaves no trace but its fields.
        unsure = [] if writers else [each for each in sightings.unsure if each.iteration <= version.first]
        return _NOTHING if any(_sends(each, foreign) for each in unsure) else foreign

    def _removal(
        self, sightings: ObjectSightings, current: JsonObject, version: Sighting, arrival: int
    ) -> Iterator[_Moment]:
        metadata = current["metadata"]
        if "deletionTimestamp" not in metadata:
            yield from self._deletion(sightings, current, version.revision, arrival)
        elif current.get("kind") == "Pod":
            # The kubelet ends it.
            begun = TreeChange({"metadata": {"deletionTimestamp": metadata["deletionTimestamp"]}}, {})
            yield _Moment(
                iteration=arrival, revision=version.revision, action=ForeignAction.DELETE, tree=current, fields=begun
            )
        own = (own_part(current, self._managers).get("metadata") or {}).get("finalizers") or ()
        finalizers = [each for each in metadata.get("finalizers") or () if each not in own]
        if finalizers:
            yield _Moment(
                iteration=arrival,
                revision=version.revision,
                action=ForeignAction.UPDATE,
                tree=current,
                fields=TreeChange({"metadata": {"finalizers": finalizers}}, {"metadata": {"finalizers": []}}),
            )

    def _deletion(self, sightings: ObjectSightings, tree: JsonObject, revision: int, arrival: int) -> Iterator[_Moment]:
        is_own = any(each <= arrival for each in sightings.deleted)
        if not is_own and not self._is_collected(tree, arrival):
            yield _Moment(iteration=arrival, revision=revision, action=ForeignAction.DELETE, tree=tree)

    def _is_collected(self, tree: JsonObject, arrival: int) -> bool:
        """Whether the garbage collector deletes an object, because its owner goes."""
        owners = tree["metadata"].get("ownerReferences") or ()
        end = self._timeline.time_of(arrival) + _COLLECTION_SECONDS
        return any(
            self._timeline.time_of(each.first) <= end
            for owner in owners
            if (sightings := self._objects.get(str(owner.get("uid")))) is not None
            for each in sightings.versions.values()
            if each.tree is None or "deletionTimestamp" in each.tree["metadata"]
        )

    def _is_own(self, manager: str) -> bool:
        return is_manager_of(manager, self._managers)


def _certain_managers(sightings: ObjectSightings) -> Iterator[str]:
    """Yield the field managers that the operator's own writes show."""
    versions = sightings.ordered()
    if sightings.created and versions and versions[0].revision in sightings.written:
        yield from _writers(None, versions[0].tree or {})
    for before, version in pairwise(versions):
        written = sightings.written.get(version.revision)
        if before.tree is None or version.tree is None or written is None:
            continue
        writers = _writers(before.tree, version.tree)
        fields = change_between(_shown(before.tree), _shown(version.tree))
        if len(writers) == 1 and _sends(written, fields):
            yield from writers


def _writers(before: JsonObject | None, after: JsonObject) -> Sequence[str]:
    """Return the field managers that wrote between two versions of an object, as far as managedFields tell."""
    earlier = {_identity(entry): entry for entry in _entries(before or {})}
    writers: dict[str, None] = {}
    for entry in _entries(after):
        previous = earlier.get(_identity(entry))
        if previous is None or previous.get("time") != entry.get("time") or _has_grown(previous, entry):
            writers[str(entry.get("manager", ""))] = None
    return [*writers]


def _entries(tree: JsonObject) -> Iterator[JsonObject]:
    for entry in (tree.get("metadata") or {}).get("managedFields") or ():
        if isinstance(entry, dict):
            yield entry


def _identity(entry: JsonObject) -> tuple[str, ...]:
    return tuple(str(entry.get(name, "")) for name in ("manager", "operation", "apiVersion", "subresource"))


def _has_grown(before: JsonObject, after: JsonObject) -> bool:
    old, new = (FieldSet.from_fields_v1(entry.get("fieldsV1") or {}) for entry in (before, after))
    return bool(new.difference(old))


def _sends(request: ExchangeBegan, fields: TreeChange) -> bool:
    """Whether a request sets one of some fields to its new value, or removes one."""
    try:
        body = msgspec.json.decode(request.body)
    except JSON_ERRORS:
        return False
    return _sets(fields.after, body) or _removes(fields.before, fields.after, body, whole=request.method == "PUT")


def _sets(fields: JsonValue, body: JsonValue) -> bool:
    if isinstance(fields, dict) and isinstance(body, dict) and fields:
        return any(name in body and _sets(value, body[name]) for name, value in fields.items())
    if isinstance(fields, list) and isinstance(body, list):
        return any(_sets(item, each) for item in fields for each in body)
    return deep_equal(fields, body)


def _removes(before: JsonObject, after: JsonObject, body: JsonValue, *, whole: bool) -> bool:
    """Whether a body removes one of the fields that only `before` has.

    Args:
        before: the fields before the change.
        after: the same fields after it.
        body: of a request.
        whole: the body is the whole object; otherwise null removes a field.
    """
    if not isinstance(body, dict):
        return False
    for name, value in before.items():
        rest, sent = after.get(name), body.get(name)
        if name not in after:
            is_removed = (whole and name not in body) or (name in body and sent is None)
        elif isinstance(value, list) and isinstance(sent, list | None) and (whole or name in body):
            is_removed = any(item not in (sent or ()) for item in value)
        else:
            is_removed = isinstance(value, dict) and isinstance(rest, dict) and _removes(value, rest, sent, whole=whole)
        if is_removed:
            return True
    return False


def _shown(tree: JsonObject) -> JsonObject:
    """Return an object without what the server sets."""
    return without_metadata(tree, _SERVER_SET)


def _named(fields: JsonObject, tree: JsonObject) -> JsonObject:
    """Return fields of an object with what names it."""
    names = {name: tree["metadata"][name] for name in ("name", "namespace") if tree["metadata"].get(name)}
    metadata = {**names, **(fields.get("metadata") or {})}
    return {**fields, "apiVersion": tree.get("apiVersion"), "kind": tree.get("kind"), "metadata": metadata}
