"""Makes a plan from a run: groups the net changes by the reconciled object, and finds the consequences. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec.structs import replace

from opsdk.apimachinery.secret_values import is_secret
from opsdk.builder.operator import Operator
from opsdk.engine.consequences.behaviour import behaviour_consequences
from opsdk.engine.consequences.conversions import conversion_consequences
from opsdk.engine.consequences.evidence import Evidence
from opsdk.engine.consequences.fields import field_consequences
from opsdk.engine.consequences.left_behind import left_behind_consequences
from opsdk.engine.consequences.objects import object_consequences
from opsdk.engine.consequences.pods import pod_consequences
from opsdk.engine.consequences.services import service_consequences
from opsdk.engine.consequences.user_changes import user_change_consequences
from opsdk.engine.differences import Difference
from opsdk.engine.foreign_changes import PlayedChange
from opsdk.engine.net_changes import NetChange, OwnerGraph, effects
from opsdk.engine.plan import ChangeAction, Consequence, Plan, PlannedChange, PlannedObject
from opsdk.engine.recording import RunPhase
from opsdk.engine.redaction import change_without_secret_values, without_secret_values
from opsdk.engine.run import RunOutcome
from opsdk.engine.snapshot import ClusterSnapshot, Unseen
from opsdk.engine.snapshot_kinds import UnreadKinds, blind_spots
from opsdk.engine.writes import Ref

__all__ = ["make_plan"]

_INSTALLATION: Final = "Installation of this version"
_CHANGES: Final = "Your changes"
_OUTSIDE: Final = "Writes outside of reconciles"
_MAX_CAUSES: Final = 3


def make_plan(outcome: RunOutcome, operator: Operator, *, namespace: str = "default") -> Plan:
    """Return the plan of a run.

    Args:
        outcome: of the run.
        operator: as it is declared: with its permissions, finalizers and converters.
        namespace: of the operator.
    """
    everything, rules = outcome.changes, operator.rules(namespace=namespace)
    snapshot = outcome.begin
    unread = UnreadKinds(snapshot)
    hidden = {key: reason for key in everything if (reason := unread.reason(Ref.from_key(key))) is not None}
    blind = tuple(dict.fromkeys((*blind_spots(snapshot, rules), *_reasons(snapshot, everything, hidden))))
    outcome = _of_what_was_read(snapshot, outcome, hidden, unread)
    changes = outcome.changes
    ownership = OwnerGraph(snapshot.objects, changes.values())
    evidence = Evidence(
        operator=operator.name,
        finalizers=operator.finalizer_names(),
        converters=operator.converters,
        outcome=outcome,
        ownership=ownership,
        unread=unread,
    )
    return Plan(
        operator=operator.name,
        taken_at=snapshot.taken_at,
        server_version=snapshot.server_version,
        seconds=outcome.seconds,
        objects=list(_groups(evidence)),
        consequences=_consequences(evidence),
        unseen=tuple(dict.fromkeys((*snapshot.unseen, *blind))),
        blind=blind,
        unknown=[everything[key].subject for key in hidden if everything[key].own and _is_shown(everything[key])],
        connections=outcome.connections,
        collected=[each.subject for each in changes.values() if not each.own and each.action is ChangeAction.DELETE],
        played=[_without_secrets(each) for each in outcome.played],
    )


def _reasons(
    snapshot: ClusterSnapshot, changes: Mapping[str, NetChange], hidden: Mapping[str, Unseen]
) -> Iterator[Unseen]:
    """Yield why objects were not read that a run wrote, or that the built-in controllers wrote because of that."""
    ownership = OwnerGraph(snapshot.objects, changes.values())
    written = {str(change.latest["metadata"].get("uid", "")) for change in changes.values() if change.own}
    for key, reason in hidden.items():
        owners = (str(owner["metadata"].get("uid", "")) for owner in ownership.ancestors(changes[key].latest))
        if changes[key].own or any(uid in written for uid in owners):
            yield reason


def _of_what_was_read(
    snapshot: ClusterSnapshot, outcome: RunOutcome, hidden: Collection[str], unread: UnreadKinds
) -> RunOutcome:
    """Return an outcome without the objects that the snapshot lacks although the cluster may have them.

    What the built-in controllers do to a dependent of such an object goes too, as to a Pod of a StatefulSet.
    """
    if not snapshot.unseen and not hidden:
        return outcome
    changes = {key: change for key, change in outcome.changes.items() if key not in hidden}
    ownership = OwnerGraph(snapshot.objects, changes.values())
    return dataclasses.replace(
        outcome,
        changes={
            key: change
            for key, change in changes.items()
            if change.own or all(ownership.is_rooted(state) for state in (change.before, change.after) if state)
        },
        turns=[each for each in outcome.turns if each.key not in hidden],
        user_writes=[each for each in outcome.user_writes if each.key not in hidden],
        loops=[each for each in outcome.loops if unread.reason(each.ref) is None],
    )


def _without_secrets(played: PlayedChange) -> PlayedChange:
    if played.change.kind != "Secret":
        return played
    return replace(played, change=change_without_secret_values(played.change))


def _consequences(evidence: Evidence) -> Sequence[Consequence]:
    consequences = chain(
        behaviour_consequences(evidence),
        object_consequences(evidence),
        left_behind_consequences(evidence),
        pod_consequences(evidence),
        service_consequences(evidence),
        user_change_consequences(evidence),
        field_consequences(evidence),
        conversion_consequences(evidence),
    )
    return sorted(consequences, key=lambda each: -each.severity)


def _groups(evidence: Evidence) -> Iterator[PlannedObject]:
    changes = evidence.outcome.changes
    planned = {key: change for key, change in changes.items() if change.own and _is_shown(change)}
    keys = {str(change.latest["metadata"].get("uid", "")): key for key, change in planned.items()}
    effects_by_key = effects(changes, evidence.ownership, keys)
    groups: dict[tuple[int, str, str], list[NetChange]] = {}
    for change in planned.values():
        groups.setdefault(_group_of(change), []).append(change)
    for (_, controller, subject), members in sorted(groups.items(), key=lambda item: item[0]):
        causes = next((m.source.causes for m in members if m.source is not None), ())
        yield PlannedObject(
            controller=controller,
            subject=subject,
            causes=[str(cause) for cause in causes[:_MAX_CAUSES]],
            unread=evidence.unread_by(controller, subject),
            changes=[_planned(member, effects_by_key.get(member.key, ())) for member in members],
        )


def _is_shown(change: NetChange) -> bool:
    """Whether a change is more than writes that end where they began."""
    return change.action is not ChangeAction.UPDATE or bool(change.differences)


def _group_of(change: NetChange) -> tuple[int, str, str]:
    """Return the order, controller and title of the group of a change."""
    if change.phase is RunPhase.INSTALLATION:
        return (0, "", _INSTALLATION)
    if change.source is not None:
        return (2, change.source.controller, change.source.subject)
    return (1, "", _CHANGES) if change.phase is RunPhase.CHANGES else (3, "", _OUTSIDE)


def _planned(change: NetChange, effect_texts: Sequence[str]) -> PlannedChange:
    obj, action = change.latest, change.action
    differences: Sequence[Difference] = () if action is ChangeAction.DELETE else change.differences
    if is_secret(obj):
        differences = [without_secret_values(difference) for difference in differences]
    return PlannedChange(
        action=action,
        kind=str(obj.get("kind", "")),
        api_version=str(obj.get("apiVersion", "")),
        namespace=str(obj["metadata"].get("namespace", "")),
        name=str(obj["metadata"]["name"]),
        differences=differences,
        writes=change.own,
        manager=change.manager,
        reason=change.source.reason if change.source is not None else "",
        effects=effect_texts,
        generate_name=str(obj["metadata"].get("generateName", "")),
    )
