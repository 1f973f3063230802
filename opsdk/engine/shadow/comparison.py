"""Compares what an operator decides in a fork with what its leader decides in the cluster. Pure.

Two states are compared: an object in the cluster, and the object of the same key in the fork. A change of the leader is
not put into the fork at once, so that the operator in the fork decides by itself. Each field has a time: of its last
change by one of the two. When that time is long enough ago, and the field differs, the two disagree.

Changes of others reach the fork at once. Where both decided the same, the fork gets the object of the cluster, with its
uid. Where they did not, the fork keeps its own, so that the operator there goes on from its own decision.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import msgspec

from opsdk.apimachinery.secret_values import is_secret
from opsdk.apimachinery.tree_names import subject_of_tree
from opsdk.apiserver.storage.objects import same_but_revision
from opsdk.engine.differences import Difference, differences, new_fields
from opsdk.engine.masking import masked
from opsdk.engine.ownership import entries_of, own_part
from opsdk.engine.redaction import without_secret_values
from opsdk.engine.shadow.decisions import (
    changed_by_others,
    created_by,
    merged,
    presence_of,
    split_change,
    without_deletion,
)
from opsdk.engine.shadow.outcome import Disagreement, Side
from opsdk.structured_merge.value import JsonObject

__all__ = ["Judgement", "Lookup", "ShadowComparison"]

Lookup = Callable[[str], JsonObject | None]
"""Returns the object with a storage key, or None."""

_MAX_DISAGREEMENTS: Final = 10_000
_MAX_VERSIONS: Final = 10_000
"""Resource versions of the fork whose counterpart in the cluster is known."""
_MAX_GENERATED: Final = 100
"""Objects with one generateName that wait for their partner, and such names."""


class Judgement(msgspec.Struct, kw_only=True):
    """The result of a comparison.

    Attributes:
        disagreements: that are new, or have new values.
        placements: objects that the fork gets; None removes it.
    """

    disagreements: list[Disagreement] = msgspec.field(default_factory=list)
    placements: dict[str, JsonObject | None] = msgspec.field(default_factory=dict)


class _Touch(msgspec.Struct):
    """When a field was last changed, and by whom."""

    time: float
    sides: set[Side]


class ShadowComparison:
    """The decisions of two operators that are not compared yet, and those that differ.

    Args:
        managers: the field managers of the leader.
        wait: seconds that one side may be later than the other.
    """

    def __init__(self, managers: Collection[str], *, wait: float) -> None:
        self._managers, self._wait = set(managers), wait
        self._open: dict[str, dict[str, _Touch]] = {}
        self._generated: dict[tuple[str, str], dict[Side, list[str]]] = {}
        self._disagreements: dict[tuple[str, str], Disagreement] = {}
        self._versions: dict[str, str] = {}
        self.agreed = 0
        """Decisions that were equal."""
        self.late = 0
        """Disagreements that ended: one side was later than the wait."""
        self.decisions: dict[Side, int] = dict.fromkeys(Side, 0)
        """Changes by each side."""
        self.missed = 0
        """Changes of the leader that were not compared."""
        self.others: Counter[str] = Counter()
        """Field managers of other changes, without those of the control plane."""

    @property
    def disagreements(self) -> Sequence[Disagreement]:
        """Those that last, in the order in which they were found."""
        return list(self._disagreements.values())

    def owned(self, objects: Iterable[JsonObject]) -> tuple[int, str]:
        """Return how many objects have fields of the leader, and when the last one was written, if that is known."""
        entries = [list(entries_of(obj, self._managers)) for obj in objects]
        times = [str(entry.get("time") or "") for each in entries for entry in each]
        return sum(map(bool, entries)), max(times, default="")

    # -------------------------------------------------------------- changes
    def on_missed_event(self, before: JsonObject | None, after: JsonObject | None) -> None:
        """Take note of a change in the cluster just before or after the comparison."""
        self.missed += own_part(before, self._managers) != own_part(after, self._managers)

    def on_cluster_event(
        self, now: float, key: str, before: JsonObject | None, after: JsonObject | None, *,
        fork: JsonObject | None, collected: bool,
    ) -> JsonObject | None:  # fmt: skip
        """Take note of a change in the cluster. Returns the object that the fork has from now on.

        Args:
            now: seconds.
            key: of the storage.
            before: the object before; None if it was created.
            after: the object after; None if it was removed.
            fork: the object that the fork has.
            collected: whether the built-in controllers delete it: no owner is left, or its namespace is being deleted.
        """
        self.others.update(changed_by_others(before, after, self._managers))
        if before is not None and after is not None and before["metadata"].get("uid") != after["metadata"].get("uid"):
            # A watch that begins anew shows the deletion and the creation as one change.
            fork = self.on_cluster_event(now, key, before, None, fork=fork, collected=collected)
            before = None
        if before is None or after is None:
            obj = after or before
            assert obj is not None
            if not self._is_leaders(obj, created=after is not None, collected=collected):
                return after
            self._touch(now, key, [""], Side.LEADER, obj)
            return fork if after is None or fork is None else self.adopted(fork, after)
        change = split_change(before, after, self._managers)
        self._touch(now, key, change.own, Side.LEADER, after)
        others = change.others
        begins = "deletionTimestamp" in others.get("metadata", {})
        if begins and self._is_leaders(before, created=False, collected=collected):
            others = without_deletion(others)
            self._touch(now, key, [""], Side.LEADER, after)
        if not change.own and others == change.others and fork is not None and same_but_revision(fork, before):
            return after
        if fork is None or not others:
            return fork
        forked = merged(fork, others, after, self._managers)
        return None if _waits(after) and not _waits(forked) else forked

    def on_shadow_write(self, now: float, key: str, before: JsonObject | None, after: JsonObject | None) -> None:
        """Take note of a write of the operator in the fork."""
        if before is None or after is None or presence_of(before) is not presence_of(after):
            obj = after or before
            assert obj is not None
            self._touch(now, key, [""], Side.SHADOW, obj)
            return
        change = split_change(before, after, self._managers)
        self._touch(now, key, change.own, Side.SHADOW, after)

    def adopted(self, fork: JsonObject, live: JsonObject) -> JsonObject:
        """Return an object that both have, as the fork has it from now on: with what others gave the leader's.

        Without that, the uid would differ, and the built-in controllers would seem not to have observed it.
        """
        return merged(fork, split_change(fork, live, self._managers).others, live, self._managers)

    def on_placement(self, placed: JsonObject, live: JsonObject) -> None:
        """Take note of the resource version that the fork gave an object of the cluster."""
        self._versions[placed["metadata"]["resourceVersion"]] = live["metadata"]["resourceVersion"]
        if len(self._versions) > _MAX_VERSIONS:
            del self._versions[next(iter(self._versions))]

    def add_manager(self, manager: str) -> None:
        """Take note of a field manager of the operator in the fork."""
        self._managers.add(manager)

    def _touch(self, now: float, key: str, paths: Sequence[str], side: Side, obj: JsonObject) -> None:
        if not paths:
            return
        self.decisions[side] += 1
        touches = self._open.setdefault(key, {})
        for path in paths:
            touch = touches.setdefault(path, _Touch(now, set()))
            touch.time = now
            touch.sides.add(side)
        if "" in paths and (place := _generated_place(key, obj)):
            keys = self._generated.setdefault(place, {}).setdefault(side, [])
            keys.append(key)
            del keys[:-_MAX_GENERATED]
            if len(self._generated) > _MAX_GENERATED:
                del self._generated[next(iter(self._generated))]

    def _is_leaders(self, obj: JsonObject, *, created: bool, collected: bool) -> bool:
        """Whether the leader created, or deletes, an object.

        A deletion has no author. It is the leader's if the object is.
        """
        if collected and not created:
            return False
        if not created and "deletionTimestamp" in obj["metadata"]:
            # It ends because the leader removed its finalizer, or a built-in controller another one.
            return bool((own_part(obj, self._managers).get("metadata") or {}).get("finalizers"))
        return created_by(obj, self._managers)

    # -------------------------------------------------------------- comparison
    def due(self, now: float) -> Sequence[str]:
        """Return the keys with fields that have not changed for as long as the wait."""
        return [
            key
            for key, touches in self._open.items()
            if any(now - touch.time >= self._wait for touch in touches.values())
        ]

    def judge(self, now: float, key: str, *, cluster: Lookup, fork: Lookup) -> Judgement:
        """Compare an object. What was changed too recently stays open.

        Args:
            now: seconds.
            key: of the storage.
            cluster: returns objects of the cluster.
            fork: returns objects of the fork.
        """
        judgement = Judgement()
        leader_key, shadow_key = self._pair(key, cluster, fork)
        live, forked = cluster(leader_key), fork(shadow_key)
        touches = [*self._open.get(leader_key, {}).items(), *self._open.get(shadow_key, {}).items()]
        differing = self._differing(live, forked)
        different = [each for each in differing if not self._is_version(each)]
        for difference in different:
            related = [touch for path, touch in touches if _is_related(path, difference.path)]
            if related and all(now - touch.time >= self._wait for touch in related):
                sides = sorted({side for touch in related for side in touch.sides})
                disagreement = self._disagree(now, leader_key, difference, live or forked, sides)
                judgement.disagreements += [disagreement] if disagreement is not None else []
        for each in {leader_key, shadow_key}:
            self._close(now, each, [difference.path for difference in different])
        if leader_key != shadow_key:
            # The server gave one object two names: the fork goes on with that of the cluster.
            judgement.placements = {shadow_key: None, leader_key: live}
        elif not differing and key not in self._open and not _is_placed(forked, live):
            judgement.placements = {key: live}
        return judgement

    def _pair(self, key: str, cluster: Lookup, fork: Lookup) -> tuple[str, str]:
        """Return the keys of an object in the cluster and in the fork: they differ if its name was generated."""
        live, forked = cluster(key), fork(key)
        obj = live or forked
        if obj is None or (live is not None and forked is not None) or not (place := _generated_place(key, obj)):
            return key, key
        side = Side.SHADOW if live is not None else Side.LEADER
        keys = self._generated.get(place, {}).get(side, [])
        for other in keys:
            if (cluster(other) is None) is (side is Side.SHADOW) and (fork(other) is None) is (side is Side.LEADER):
                keys.remove(other)
                return (key, other) if live is not None else (other, key)
        return key, key

    def _differing(self, live: JsonObject | None, forked: JsonObject | None) -> Sequence[Difference]:
        """Return what differs, from the cluster to the fork."""
        leader, shadow = presence_of(live), presence_of(forked)
        if leader is not shadow:
            return [Difference("", leader.value, shadow.value)]
        parts = (masked("", own_part(obj, self._managers)) for obj in (live, forked))
        return list(new_fields(differences(*parts)))

    def _is_version(self, difference: Difference) -> bool:
        """Whether both values are the resource version of one object: an operator may write down what it read."""
        return isinstance(difference.new, str) and self._versions.get(difference.new, "") == difference.old

    def _disagree(
        self, now: float, key: str, difference: Difference, obj: JsonObject | None, sides: Sequence[Side]
    ) -> Disagreement | None:
        """Add a disagreement; returns it if it is new, or has new values."""
        assert obj is not None
        visible = without_secret_values(difference) if is_secret(obj) else difference
        previous = self._disagreements.get((key, difference.path))
        if previous is not None and (previous.leader, previous.shadow) == (visible.old, visible.new):
            return None
        disagreement = Disagreement(
            subject=subject_of_tree(obj),
            path=difference.path,
            leader=visible.old,
            shadow=visible.new,
            decided=sides,
            seconds=now,
        )
        if previous is not None or len(self._disagreements) < _MAX_DISAGREEMENTS:
            self._disagreements[key, difference.path] = disagreement
        return disagreement

    def _close(self, now: float, key: str, differing: Sequence[str]) -> None:
        """Forget the changes that were compared, and the disagreements that ended."""
        touches = self._open.pop(key, {})
        remaining = {path: touch for path, touch in touches.items() if now - touch.time < self._wait}
        if remaining:
            self._open[key] = remaining
        for path in touches.keys() - remaining.keys():
            self.agreed += not any(_is_related(path, each) for each in differing)
        ended = [each for each in self._disagreements if each[0] == key and each[1] not in differing]
        for each in ended:
            del self._disagreements[each]
            self.late += 1


def _waits(obj: JsonObject) -> bool:
    """Whether only finalizers keep an object."""
    return "deletionTimestamp" in obj["metadata"] and bool(obj["metadata"].get("finalizers"))


def _generated_place(key: str, obj: JsonObject) -> tuple[str, str] | None:
    """Return where the server generated a name, and from which prefix; None for a name of the client."""
    prefix = obj["metadata"].get("generateName")
    return (key.rpartition("/")[0], prefix) if prefix else None


def _is_related(path: str, other: str) -> bool:
    """Whether a field is another one, or above or below it. An object is above its fields."""
    return path in ("", other) or other == "" or _is_above(path, other) or _is_above(other, path)


def _is_above(path: str, other: str) -> bool:
    return other.startswith((f"{path}.", f"{path}["))


def _is_placed(forked: JsonObject | None, live: JsonObject | None) -> bool:
    if forked is None or live is None:
        return forked is live
    return same_but_revision(forked, live)
