"""The decisions of a lifecycle, played against a model: crashes between any two steps, and what others write."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from opsdk import ObjectMeta
from opsdk.lifecycle.names import LifecycleNames
from opsdk.lifecycle.state import (
    CreateRecord,
    LifecycleAction,
    LifecycleMethods,
    created_record,
    next_action,
    prepare,
    without_finalizer,
)

NAMES = LifecycleNames.norman("dns", prefix="dns.example.com/", adopt=["dns", "old"])
KEEP = LifecycleNames.norman("dns", prefix="dns.example.com/", adopt=["dns", "old"], rename=False)
DELETED = datetime(2026, 1, 1, tzinfo=UTC)

methods_of = st.builds(LifecycleMethods, create=st.booleans(), updated=st.booleans(), remove=st.booleans())
finalizers_of = st.lists(st.sampled_from([*NAMES.finalizers, "other.example.com/x"]), max_size=4)
annotations_of = st.dictionaries(
    st.sampled_from([*NAMES.annotations, "other"]),
    st.sampled_from(["true", "false", "", "{", '{"uid":"u1","generation":2}', '{"uid":"u2"}']),
    max_size=3,
)
metadata_of = st.builds(
    ObjectMeta,
    uid=st.just("u1"),
    finalizers=finalizers_of,
    annotations=annotations_of,
    deletion_timestamp=st.sampled_from([None, DELETED]),
)
names_of = st.sampled_from([NAMES, KEEP])


@given(metadata_of, methods_of, names_of)
def test_preparing_once_is_enough(metadata: ObjectMeta, methods: LifecycleMethods, names: LifecycleNames) -> None:
    """After PREPARE the next action is another one, and foreign finalizers and annotations are kept in order."""
    if next_action(metadata, methods, names) is not LifecycleAction.PREPARE:
        return
    finalizers, annotations = prepare(metadata, methods, names)
    prepared = ObjectMeta(uid="u1", finalizers=finalizers, annotations=annotations)
    assert next_action(prepared, methods, names) is not LifecycleAction.PREPARE
    foreign = [name for name in metadata.finalizers if name not in names.finalizers]
    assert [name for name in finalizers if name not in names.finalizers] == foreign
    assert annotations.get("other") == metadata.annotations.get("other")
    assert (created_record(prepared, names) is None) == (created_record(metadata, names) is None)


@given(metadata_of, methods_of, names_of)
def test_a_deleting_object_only_gets_remove(
    metadata: ObjectMeta, methods: LifecycleMethods, names: LifecycleNames
) -> None:
    """REMOVE needs the method, one of our finalizers and a deletion; a deleting object gets nothing else."""
    action = next_action(metadata, methods, names)
    ours = any(name in names.finalizers for name in metadata.finalizers)
    removes = metadata.deletion_timestamp is not None and methods.remove and ours
    assert (action is LifecycleAction.REMOVE) == removes
    if metadata.deletion_timestamp is not None and not removes:
        assert action is LifecycleAction.STOP
    assert not set(names.finalizers) & set(without_finalizer(metadata, names))


@given(st.text())
def test_every_annotation_can_be_read(text: str) -> None:
    """No value of an annotation raises; a record survives its text form."""
    record = CreateRecord.parse(text)
    if record is not None:
        assert CreateRecord.parse(str(record)) == record


class Machine:
    """One object and one lifecycle. A crash leaves the object as the last write left it."""

    def __init__(self, methods: LifecycleMethods) -> None:
        self.methods = methods
        self.metadata: ObjectMeta | None = ObjectMeta(uid="u1")
        self.effects = 0
        self.annotated = 0
        self.log: list[str] = []

    def run(self, crash_after: int) -> None:
        """Take the steps of one pass; the process ends after `crash_after` steps."""
        for step in self.steps():
            self.log.append(step)
            if crash_after == 0:
                return
            crash_after -= 1

    def steps(self) -> Iterator[str]:
        """Yield the name of each write and effect after it has happened, as `LifecycleHandler` does them."""
        metadata = self.metadata
        if metadata is None:
            return
        action = next_action(metadata, self.methods, NAMES)
        if action is LifecycleAction.PREPARE:
            metadata.finalizers, metadata.annotations = prepare(metadata, self.methods, NAMES)
            yield "finalizer"
            action = next_action(metadata, self.methods, NAMES)
        if action is LifecycleAction.CREATE:
            self.effects += 1
            yield "create"
            metadata.annotations[NAMES.annotation] = "true"
            self.annotated += 1
            yield "annotation"
        elif action is LifecycleAction.UPDATED:
            yield "updated"
        elif action is LifecycleAction.REMOVE:
            self.effects = 0
            yield "remove"
            metadata.finalizers = without_finalizer(metadata, NAMES)
            yield "finalizer removed"
            self.collect()

    def delete(self) -> None:
        """A user deletes the object."""
        if self.metadata is not None:
            self.metadata.deletion_timestamp = DELETED
            self.collect()

    def collect(self) -> None:
        """The server drops an object that is deleted and has no finalizers."""
        if self.metadata is not None and self.metadata.deletion_timestamp is not None and not self.metadata.finalizers:
            self.metadata = None


@given(methods_of, st.lists(st.one_of(st.integers(0, 3), st.just("delete")), max_size=12))
def test_crashes_between_any_two_steps(methods: LifecycleMethods, history: list[int | str]) -> None:
    """`create` ran before its annotation, which is written once; `remove` ran before the object went."""
    machine = Machine(methods)
    for event in history:
        if isinstance(event, int):
            machine.run(event)
        else:
            machine.delete()
        if machine.metadata is None and methods.remove:
            assert machine.effects == 0
    machine.delete()
    for _ in range(3):
        machine.run(10)
    assert machine.metadata is None
    assert machine.annotated <= 1
    log = machine.log
    assert log.count("annotation") <= log.count("create")
    if methods.remove and "create" in log:
        assert log.index("finalizer") < log.index("create")
        assert log.index("remove") > max(index for index, step in enumerate(log) if step == "create")
    if "updated" in log and methods.create:
        assert log.index("annotation") < log.index("updated")
