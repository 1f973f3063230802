"""Runs workloads like life, without a disturbance, and judges what the operator makes of them.

What a scenario finds counts if a second run with other random numbers and resource versions finds it too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any, Final

import msgspec

from opsdk.apimachinery.tree_names import key_of_tree, subject_of_tree
from opsdk.engine.world.outcome import Outcome
from opsdk.engine.world.rest_state import RestState, subject_of
from opsdk.structured_merge.value import JsonObject
from opsdk.verification.causes import LAST_WRITE, Cause, causes_of
from opsdk.verification.generated import GeneratedVerification
from opsdk.verification.generated_run import GeneratedSummary, run_undisturbed
from opsdk.verification.guided_run import WorkloadStep
from opsdk.verification.life.actions import (
    CreateObjects,
    DeleteObjects,
    Look,
    Pass,
    PatchObjects,
    WaitSecond,
)
from opsdk.verification.life.deletions import Deletion, deletions_of
from opsdk.verification.life.external import entries_left, shared_entries
from opsdk.verification.life.foreign_objects import Annotate, Occupy, Remember, lost_annotations, taken_over
from opsdk.verification.life.neighbours import Alone, disturbed_neighbours, left_over, neighbours_of, short_text
from opsdk.verification.life.references import change_of, missing_references, stale_pods
from opsdk.verification.oracles import Oracle, OracleFinding, StateDifference, state_differences_of
from opsdk.verification.workload.schema_fields import NAMESPACE
from opsdk.verification.workload.values import ValueClass

__all__ = ["check_life", "life_states"]

_MAX_SHOWN: Final = 5
_MAX_CONTENTS: Final = 12
_EMPTY: Final = RestState()
_LABEL_LENGTH: Final = 63


def check_life(
    verification: GeneratedVerification, summary: GeneratedSummary, *, sleep: Callable[[float], None] = time.sleep
) -> None:
    """Run the scenarios of each kind, and add what they find.

    Args:
        verification: the operator, with its generated custom resources.
        summary: of the generated workloads; the findings are added.
        sleep: lets real time pass, in seconds.
    """
    for kind in verification.generated:
        if not summary.connections:
            _KindLife(verification, summary, kind, sleep).check()


def life_states(verification: GeneratedVerification) -> Mapping[str, Mapping[int, RestState]]:
    """Return the states at rest of a short workload of each kind, for a comparison with another process."""
    summary = GeneratedSummary()
    lives = {kind: _KindLife(verification, summary, kind) for kind in verification.generated}
    return {kind: each.short_outcome().states for kind, each in lives.items()}


class _KindLife:
    """The scenarios of one kind."""

    def __init__(
        self, verification: GeneratedVerification, summary: GeneratedSummary, kind: str,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._verification, self._summary, self._kind, self._sleep = verification, summary, kind, sleep
        spec = verification.definitions[kind][0]["spec"]
        self._resource = f"{spec['group']}/{spec['names']['plural']}"
        self._namespaced = spec["scope"] == "Namespaced"
        runs = [run for run in verification.runs if run.kind == kind]
        template = runs[0].steps[0].action
        self._first = template.obj
        self._references = template.references
        steps = chain.from_iterable(run.steps for run in runs)
        operations = [each.operation for each in steps if each.operation is not None]
        valid = [each for each in operations if each.value_class is ValueClass.VALID and not each.is_harmful]
        # Policies are flags and words.
        policies = [each.after for each in valid if any(isinstance(one.after, bool | str) for one in each.changes)]
        self._contents = [self._first, *policies[:_MAX_CONTENTS]]
        different = [each.after for each in valid if each.after.get("spec") != self._first.get("spec")]
        self._second = different[-1] if different else self._first
        self._alone: dict[tuple[str, bool], Alone | None] = {}
        self._explained: list[Outcome] | None = None
        """The outcomes of a scenario that is run again for its report; None otherwise."""

    def check(self) -> None:
        """Run all scenarios."""
        self._judge(Oracle.AT_REST, self._restless)
        self._judge(Oracle.NEIGHBOURS, self._disturbed)
        self._judge(Oracle.LEFT_OVER, self._left_over)
        if self._referenced():
            self._judge(Oracle.REFERENCES, self._references_missed)
        if self._children():
            self._judge(Oracle.FOREIGN_OBJECTS, self._taken_over)
        self._judge(Oracle.DELETION, self._kept)

    def short_outcome(self) -> Outcome:
        """Run a workload that creates, changes and deletes two objects."""
        objects = self._objects()[:2]
        actions = [self._creation_of(objects), DeleteObjects(objects)]
        return self._run(actions, shifted=False)

    def _judge(self, oracle: Oracle, find: Callable[[bool], list[StateDifference]]) -> None:
        self._summary.checks[oracle] += 1
        problems = find(False)
        if problems and (places := {each.place for each in find(True)}):
            problems = [each for each in problems if each.place in places]
        else:
            return
        if problems:
            finding = OracleFinding(
                oracle=oracle,
                kind=self._kind,
                operation=f"{self._kind}: {_TITLES[oracle]}",
                differences=tuple(short_text(each.text) for each in problems[:_MAX_SHOWN]),
                places=frozenset(each.place for each in problems),
            )
            self._summary.add(msgspec.structs.replace(finding, causes=self._causes(find, problems)))

    def _causes(
        self, find: Callable[[bool], list[StateDifference]], problems: Sequence[StateDifference]
    ) -> tuple[Cause, ...]:
        """Run a scenario again, and return the code that wrote what it shows."""
        self._explained = []
        find(False)
        outcomes, self._explained = self._explained, None
        texts = [each.text for each in problems[:_MAX_SHOWN]]
        causes_of_runs = [causes_of(outcome, texts) for outcome in reversed(outcomes or ())]
        # A run of another part of the scenario may have no write of what is wrong, only a last one.
        causes_of_runs.sort(key=lambda causes: all(each.role == LAST_WRITE for each in causes))
        return tuple(each.shortened(short_text) for each in next(filter(None, causes_of_runs), ()))

    # -------------------------------------------------------------- at rest
    def _restless(self, shifted: bool) -> list[StateDifference]:
        """Return the writes of passes in which nothing has changed, and generations that were not observed."""
        create = self._creation_of([self._first])
        outcome = self._run([create, WaitSecond(self._sleep)], shifted=shifted)
        problems = [StateDifference(each.partition(" sent ")[2] or each, each) for each in outcome.violations]
        patch = {"spec": self._second["spec"]} if isinstance(self._second.get("spec"), dict) else None
        if patch is not None and not problems:
            outcome = self._run([create, PatchObjects([(self._first, patch)], "change")], shifted=shifted)
        for state in outcome.states.values():
            if state.failing:
                continue
            problems += [StateDifference(f"{key} lags", f"{key}: {text}") for key, text in state.lagging.items()]
        return _once(problems)

    # -------------------------------------------------------------- neighbours
    def _objects(self) -> list[JsonObject]:
        return list(neighbours_of(self._first, self._second, namespaced=self._namespaced))

    def _around(self, objects: Sequence[JsonObject]) -> list[JsonObject]:
        """Return the objects that custom resources name, in each of their namespaces."""
        spaces = dict.fromkeys(each["metadata"].get("namespace", NAMESPACE) for each in objects)
        trees = []
        for number, space in enumerate(spaces):
            for tree in self._references:
                metadata = tree["metadata"]
                if metadata.get("namespace") == NAMESPACE:
                    trees.append({**tree, "metadata": {**metadata, "namespace": space}})
                elif not number:
                    trees.append(tree)
        return trees

    def _creation_of(self, objects: Sequence[JsonObject]) -> CreateObjects:
        """Return an action that creates custom resources, after the objects that they name."""
        return CreateObjects([*self._around(objects), *objects])

    def _alone_of(self, obj: JsonObject, *, shifted: bool) -> Alone | None:
        """Return what becomes of one object; None if the server refuses it, or its reconcile fails."""
        name = key_of_tree(obj)
        if (key := (name, shifted)) not in self._alone:
            create = self._creation_of([obj])
            outcome = self._run([create], shifted=shifted)
            state = outcome.states.get(1)
            refused = name in create.refusals or state is None or bool(state.failing)
            if state is not None and state.failing and self._is_for_its_length(obj, shifted=shifted):
                self._advise_of_name(obj, next(iter(state.failing.values())))
            stored = f"{self._resource}/{name}"
            self._alone[key] = None if refused or state is None else Alone(name, stored, state, outcome.entries)
        return self._alone[key]

    def _is_for_its_length(self, obj: JsonObject, *, shifted: bool) -> bool:
        """Whether an object fails for its long name: one with the same content and a short name does not."""
        if len(obj["metadata"]["name"]) < _LABEL_LENGTH:
            return False
        short = next(each for each in self._objects() if each.get("spec") == obj.get("spec"))
        return self._alone_of(short, shifted=shifted) is not None

    def _advise_of_name(self, obj: JsonObject, error: str) -> None:
        begin = f"the reconcile of a {self._kind} whose name has {len(obj['metadata']['name'])} characters fails"
        if any(each.startswith(begin) for each in self._summary.advice):
            return
        self._summary.advice.append(
            f"{begin} ({short_text(error)}): shorten the names of its children, with a digest at the end, "
            "or refuse such names in the schema"
        )

    def _alones(self, *, shifted: bool) -> tuple[list[JsonObject], list[Alone]]:
        pairs = [(obj, self._alone_of(obj, shifted=shifted)) for obj in self._objects()]
        good = [(obj, alone) for obj, alone in pairs if alone is not None]
        return [obj for obj, _ in good], [alone for _, alone in good]

    def _disturbed(self, shifted: bool) -> list[StateDifference]:
        objects, alones = self._alones(shifted=shifted)
        outcome = self._run([self._creation_of(objects)], shifted=shifted)
        state = outcome.states.get(1)
        problems = disturbed_neighbours(alones, state) if state is not None else []
        if self._verification.has_systems:
            before = self._run([Pass()], shifted=shifted).entries
            spaces = {each["metadata"].get("namespace") for each in objects}
            entries = [each.entries for each in alones]
            problems += shared_entries(before, entries, outcome.entries, namespaces=len(spaces))
        return [*problems, *(StateDifference(each, each) for each in outcome.violations)]

    def _left_over(self, shifted: bool) -> list[StateDifference]:
        objects, alones = self._alones(shifted=shifted)
        looks = [Look(name=f"look {number}") for number in range(3)]
        actions = [
            looks[0],
            self._creation_of(objects),
            looks[1],
            DeleteObjects(objects[:1], "delete the first"),
            DeleteObjects(objects[1:], "delete the others"),
            Pass(),
            looks[2],
        ]
        states = self._run(actions, shifted=shifted).states
        problems: list[StateDifference] = []
        if 4 in states and alones:
            problems += left_over(alones[:1], alones[1:], states[4], states[0])
        if 6 in states:
            problems += left_over(alones, (), states[6], states[0])
        entries = [each.entries for each in looks]
        problems += entries_left(looks[2].systems, entries[0], entries[1], entries[2])
        return [] if problems and self._may_leave(shifted) else _once(problems)

    def _may_leave(self, shifted: bool) -> bool:
        """Whether the spec decides what outlives an object: with one content it stays, and with another it goes."""
        fates: set[tuple[str, bool]] = set()
        for content in self._contents:
            obj = {**content, "metadata": self._first["metadata"]}
            looks = [Look(name=f"look {number}") for number in range(3)]
            create, delete = self._creation_of([obj]), DeleteObjects([obj])
            actions = [looks[0], create, looks[1], delete, Pass(), looks[2]]
            states = self._run(actions, shifted=shifted, harmful={1, 2, 3, 4}).states
            if 3 in states and 6 in states:
                there = states[3].objects.keys() - states[0].objects.keys()
                fates.update((key, key in states[6].objects) for key in there)
            before, among, after = (look.entries for look in looks)
            fates.update(
                (path, after.get(path, 0) > before.get(path, 0))
                for path, count in among.items()
                if count > before.get(path, 0)
            )
        return any((name, False) in fates for name, stays in fates if stays)

    # -------------------------------------------------------------- referenced objects
    def _referenced(self) -> list[JsonObject]:
        """Return the Secrets and ConfigMaps that the custom resource, the operator or its pods name."""
        existing = {subject_of_tree(each) for each in self._references}
        alone = self._alone_of(self._first, shifted=False)
        state = alone.state if alone is not None else _EMPTY
        missing = missing_references(state, existing, self._first["metadata"].get("namespace", NAMESPACE))
        return [each for each in (*self._references, *missing) if change_of(each) is not None]

    def _references_missed(self, shifted: bool) -> list[StateDifference]:
        """Return where the state depends on when the objects came, or on what they held before."""
        references = self._referenced()
        names = {f"{each['kind']} {each['metadata']['name']}" for each in references}
        others = [each for each in self._references if each not in references]
        patches = [(each, patch) for each in references if (patch := change_of(each)) is not None]
        changed = [{**each, **patch} for each, patch in patches]
        late = CreateObjects(references, "create what it names")
        change = PatchObjects(patches, "change what it names")
        remove = DeleteObjects(references, "delete what it names")
        first, last = CreateObjects([*others, self._first]), DeleteObjects([self._first])
        actions = [first, late, Pass(), change, Pass("pass again"), remove, late, Pass("pass at last"), last]
        states = self._run(actions, shifted=shifted, harmful={0, 5}).states
        usual = self._run([CreateObjects([*others, *references, self._first])], shifted=shifted).states.get(1)
        new = self._run([CreateObjects([*others, *changed, self._first])], shifted=shifted).states.get(1)
        problems = []
        for number, expected, when in (
            (3, usual, "comes late"),
            (5, new, "changes"),
            (8, usual, "goes and comes back"),
        ):
            if expected is not None and number in states:
                prefix = f"when {' or '.join(sorted(names))} {when}"
                texts = [
                    (each.place, f"{prefix}: {each.text}") for each in state_differences_of(expected, states[number])
                ]
                problems += [StateDifference(place, text) for place, text in texts]
        if 3 in states and 5 in states:
            problems += stale_pods(states[3], states[5], names)
        return _once(problems)

    # -------------------------------------------------------------- objects of others
    def _children(self) -> list[str]:
        alone = self._alone_of(self._first, shifted=False)
        return sorted(alone.state.children) if alone is not None else []

    def _taken_over(self, shifted: bool) -> list[StateDifference]:
        remember = Remember(self._children())
        occupy, look = Occupy(remember), Occupy(remember, name="look", only_look=True)
        actions = [
            self._creation_of([self._first]), remember, DeleteObjects([self._first]), Pass(), occupy,
            CreateObjects([self._first], "create again"), look, DeleteObjects([self._first], "delete again"),
        ]  # fmt: skip
        self._run(actions, shifted=shifted, harmful={4, 5, 6, 7})
        return [*taken_over(occupy.seen, look.seen), *self._stripped(shifted)]

    def _stripped(self, shifted: bool) -> list[StateDifference]:
        """Return the children that lose what another client added to them."""
        remember = Remember(self._children())
        annotate, look = Annotate(remember), Occupy(remember, name="look", only_look=True)
        patch = {"spec": self._second.get("spec")}
        create = self._creation_of([self._first])
        change = PatchObjects([(self._first, patch)], "change")
        self._run([create, remember, annotate, change, look], shifted=shifted, harmful={3, 4})
        return lost_annotations(annotate.seen, look.seen)

    # -------------------------------------------------------------- deletions
    def _kept(self, shifted: bool) -> list[StateDifference]:
        """Return where the custom resource stays after a deletion, or goes before another controller lets it."""
        systems = self._verification.has_systems
        children, references = self._children(), self._referenced()
        ways = deletions_of(self._first, references, children, namespaced=self._namespaced, has_systems=systems)
        return [problem for each in ways for problem in self._kept_after(each, shifted)]

    def _kept_after(self, deletion: Deletion, shifted: bool) -> Iterator[StateDifference]:
        obj, look = deletion.obj, Look([deletion.obj])
        create = self._creation_of([obj])
        actions = [create, *deletion.actions, Pass(), look]
        outcome = self._run(actions, shifted=shifted, harmful=set(range(1, len(actions))))
        name, place = subject_of(f"{self._resource}/{key_of_tree(obj)}"), f"{self._resource} {deletion.when}"
        if create.refusals or not look.seen:
            return
        is_there, state = any(look.seen.values()), outcome.states.get(len(actions), _EMPTY)
        if is_there and not deletion.is_held:
            error = state.failing.get(key_of_tree(obj), "")
            yield StateDifference(place, f"{name} never goes {deletion.when}" + (error and f": {error}"))
        elif deletion.is_held and not is_there:
            yield StateDifference(place, f"{name} goes {deletion.when}: remove no finalizers of others")
        elif deletion.is_held:
            for key in sorted(state.children & set(self._children())):
                text = f"{subject_of(key)} is created again while {name} is deleted in the foreground"
                yield StateDifference(f"{key} {deletion.when}", f"{text}: create nothing for an object that goes")

    # -------------------------------------------------------------- helpers
    def _run(
        self, actions: Sequence[Any], *, shifted: bool, harmful: frozenset[int] | set[int] = frozenset()
    ) -> Outcome:
        """Run actions. Harmful ones may end in failing reconciles."""
        names = [f"{number} {each.__name__}" for number, each in enumerate(actions)]
        steps = [WorkloadStep(name, is_harmful=number in harmful) for number, name in enumerate(names)]
        actions_by_step = [_named(name, each) for name, each in zip(names, actions, strict=True)]
        # The author's rules need not hold of the objects of others.
        declared = replace(self._verification.declared, actions=actions_by_step, at_rest=())
        with_senders = self._explained is not None
        outcome = run_undisturbed(declared, steps, self._summary, shifted=shifted, with_senders=with_senders)
        if self._explained is not None:
            self._explained.append(outcome)
        return outcome


_TITLES: Final = {
    Oracle.AT_REST: "an object at rest, a second later, in another process",
    Oracle.NEIGHBOURS: "objects in several namespaces, with long names",
    Oracle.LEFT_OVER: "objects are deleted one after the other",
    Oracle.REFERENCES: "what it names comes late, changes, and goes",
    Oracle.FOREIGN_OBJECTS: "an object of another controller has the name of a child",
    Oracle.DELETION: "it is deleted in several ways",
}


def _once(problems: Sequence[StateDifference]) -> list[StateDifference]:
    """Return the first difference of each place."""
    return list({each.place: each for each in reversed(problems)}.values())[::-1]


def _named(name: str, action: Any) -> Any:
    wrapped = partial(action)
    wrapped.__name__ = name  # type: ignore[attr-defined]
    return wrapped
