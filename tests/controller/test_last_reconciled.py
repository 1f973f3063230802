"""The spec that was last reconciled: kept after a success, compared by paths, at no cost while nothing changes."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from boxes import Box, BoxStatus, box, records, running, writes
from hypothesis import given
from hypothesis import strategies as st
from msgspec import field

from opsdk import (
    BlockingContext,
    ConflictError,
    Context,
    ControllerOptions,
    GroupVersionKind,
    MergeFrom,
    Model,
    Object,
    ObjectMeta,
    Operator,
    Request,
    UsageError,
)
from opsdk.api.core.v1 import ConfigMap
from opsdk.api.events.v1 import Event
from opsdk.apimachinery.kinds import kind_of, metadata_only, unstructured_kind
from opsdk.apimachinery.patch.merge_patch import apply_merge_patch
from opsdk.client.patch import merge_patch
from opsdk.controller.spec_comparison import SpecChange, SpecComparison, check_path
from opsdk.controller.steps.last_reconciled import SpecRecorder, annotation_of
from opsdk.structured_merge.value import JsonObject, JsonValue

ANNOTATION = annotation_of("box")
OPTIONS = ControllerOptions(last_reconciled="annotation")


class Volume(Model):
    """A part of a spec."""

    path: str = ""
    max_size: int | None = None


class DiskSpec(Model):
    """A spec with parts."""

    size: int = 1
    volume: Volume | None = None
    labels: dict[str, str] = field(default_factory=dict)
    volumes: list[Volume] = field(default_factory=list)
    by_name: dict[str, Volume] = field(default_factory=dict)
    anything: JsonValue = None


class DiskStatus(BoxStatus):
    """A status that can hold a spec."""

    last_spec: JsonObject | None = None


class Disk(Object[DiskSpec, DiskStatus]):
    """A kind whose spec has parts."""

    gvk = GroupVersionKind("tests.opsdk.dev", "v1", "Disk")


def disk(spec: DiskSpec, name: str = "a") -> Disk:
    """Return a disk in the default namespace."""
    return Disk(metadata=ObjectMeta(name=name, namespace="default"), spec=spec)


# ------------------------------------------------------------------ comparison
VOLUMES = st.builds(Volume, path=st.sampled_from(["", "a", "b"]), max_size=st.none() | st.integers(0, 2))
SPECS = st.builds(
    DiskSpec,
    size=st.integers(0, 2),
    volume=st.none() | VOLUMES,
    labels=st.dictionaries(st.sampled_from("xy"), st.sampled_from("12"), max_size=2),
    volumes=st.lists(VOLUMES, max_size=2),
    by_name=st.dictionaries(st.sampled_from("xy"), VOLUMES, max_size=2),
    anything=st.none() | st.integers(0, 1),
)


def tree(spec: DiskSpec) -> JsonObject:
    """Return a spec as JSON."""
    encoded: JsonObject = msgspec.to_builtins(spec)
    return encoded


@given(SPECS, SPECS)
def test_the_difference_is_what_changed(old: DiskSpec, new: DiskSpec) -> None:
    """Each change has a path that `changed` confirms, with both values; without one the specs are equal."""
    comparison = SpecComparison(Disk, "1", tree(old) | {"unknown": 1}, tree(new))
    assert comparison.last == old
    difference = comparison.difference()
    assert bool(difference) is comparison.changed("spec") is (old != new)
    for change in difference:
        assert comparison.changed(change.path)
        assert change.old != change.new
    changed = {change.path for change in difference}
    for name in ("size", "labels", "volume", "volumes"):
        path = f"spec.{name}"
        assert comparison.changed(path) is any(c == path or c.startswith(f"{path}.") for c in changed)


def test_at_first_everything_is_a_change() -> None:
    """Without a record, the whole spec is one change."""
    comparison = SpecComparison(Disk, "1", None, {"size": 3})
    assert comparison.last is None
    assert comparison.changed("spec.volume.path")
    assert comparison.difference() == [SpecChange("spec", None, DiskSpec(size=3))]


def test_a_record_of_another_class_counts_as_none() -> None:
    """A spec that an older version of the class wrote does not fail the reconcile."""
    assert SpecComparison(Disk, "1", {"size": "three"}, {"size": 3}).changed("spec.size")


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("spec", []),
        ("spec.volume.max_size", ["volume", "max_size"]),
        ("spec.volume.maxSize", ["volume", "max_size"]),
        ("spec.byName.x.path", ["by_name", "x", "path"]),
        ("spec.labels.x", ["labels", "x"]),
        ("spec.anything.at.all", ["anything", "at", "all"]),
    ],
)
def test_a_path_names_attributes_or_their_json_names(path: str, names: list[str]) -> None:
    """Paths accept attributes and JSON names; keys of dicts are not checked."""
    assert check_path(Disk, path) == names


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("spec.sise", r"spec has no 'sise' \('spec.sise'\): did you mean spec.size\?"),
        ("spec.volume.maxsize", r"did you mean spec.volume.max_size\?"),
        ("spec.by_name.x.pat", r"spec.by_name.x has no 'pat'.*did you mean spec.by_name.x.path\?"),
        ("spec.volumes.path", "spec.volumes has no fields .*: name spec.volumes itself"),
        ("spec.size.bytes", "name spec.size itself"),
        ("metadata.labels", "is not a path in the spec"),
        ("size", "is not a path in the spec"),
        ("spec..size", "is not a path in the spec"),
        (3, "3 is not a path in the spec"),
    ],
)
def test_a_path_that_does_not_exist_is_refused(path: Any, message: str) -> None:
    """The message has the closest name."""
    with pytest.raises(UsageError, match=message):
        SpecComparison(Disk, "1", None, {}).changed(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
JSON_OBJECTS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


@given(JSON_OBJECTS, JSON_OBJECTS, st.sampled_from(["annotation", "status.last_spec"]))
def test_a_record_that_is_written_needs_no_second_write(first: JsonObject, second: JsonObject, place: str) -> None:
    """One merge patch records any spec, also with nulls; a second write is not needed."""
    recorder = SpecRecorder(kind_of(Disk), place, "disk")
    obj: Any = {"metadata": {}}
    for spec in (first, second):
        if (patch := recorder._patch(obj, spec)) is not None:
            obj = apply_merge_patch(obj, patch)
        assert recorder._patch(obj, spec) is None


# ------------------------------------------------------------------ with a server
async def test_a_record_is_written_once_and_starts_no_reconcile() -> None:
    """One creation is one reconcile; a change shows what it changed, and a restart writes nothing."""
    answers: list[Any] = []

    def make() -> Operator:
        operator = Operator("boxes")

        @operator.reconciler(Box, options=OPTIONS)
        async def reconcile(obj: Box, ctx: Context) -> None:
            answers.append((ctx.last_reconciled and ctx.last_reconciled.size, ctx.changed("spec.size"), obj.spec.size))
            async with ctx.status(obj) as patch:
                patch.status.size = obj.spec.size

        return operator

    operator = make()
    async with running(operator) as client:
        created = await client.create(box())
        await asyncio.sleep(60)
        (record,) = records(operator)
        assert writes(record) == ["patch status", "patch"]
        stored = await client.get(Box, "default/a")
        assert stored.metadata.annotations[ANNOTATION] == '{"size":1}'
        assert stored.metadata.generation == created.metadata.generation
        await client.patch(box(), merge_patch({"spec": {"size": 5}}))
        await asyncio.sleep(60)
        await client.patch(box(), merge_patch({"metadata": {"labels": {"new": "label"}}}))
        await asyncio.sleep(60)
        newest = records(operator)[-1]
        assert writes(newest) == []
        assert len(records(operator)) == 3
    assert answers == [(None, True, 1), (1, True, 5), (5, False, 5)]


@pytest.mark.parametrize("place", ["annotation", "status.last_spec", "status.lastSpec"])
async def test_each_place_keeps_the_spec(place: str) -> None:
    """Removed fields and keys leave the record too."""
    operator = Operator("disks")
    differences: list[list[SpecChange]] = []

    @operator.reconciler(Disk, options=ControllerOptions(last_reconciled=place))
    async def reconcile(obj: Disk, ctx: Context) -> None:
        differences.append(ctx.difference())

    first = DiskSpec(labels={"x": "1", "y": "2"}, volume=Volume(path="/a", max_size=3))
    async with running(operator, Disk) as client:
        stored = await client.create(disk(first))
        await asyncio.sleep(30)
        stored = await client.get(Disk, "default/a")
        stored.spec.labels = {"x": "2"}
        stored.spec.volume = Volume(path="/a")
        await client.patch(stored, MergeFrom())
        await asyncio.sleep(30)
        assert len(records(operator)) == 2
        stored = await client.get(Disk, "default/a")
        if place != "annotation":
            assert stored.status is not None
            expected = {"labels": {"x": "2"}, "volume": {"path": "/a"}}
            assert stored.status.last_spec == expected | ({"size": 1} if "size" in stored.status.last_spec else {})
    assert differences[0] == [SpecChange("spec", None, first)]
    assert differences[1] == [
        SpecChange("spec.volume.max_size", 3, None),
        SpecChange("spec.labels.x", "1", "2"),
        SpecChange("spec.labels.y", "2", None),
    ]


async def test_a_failure_keeps_the_record() -> None:
    """The retry still sees what has changed since the last success."""
    operator = Operator("boxes")
    answers: list[bool] = []

    @operator.reconciler(Box, options=OPTIONS)
    async def reconcile(obj: Box, ctx: Context) -> None:
        answers.append(ctx.changed("spec.size"))
        if obj.spec.size == 5 and len(answers) < 4:
            raise ValueError("not yet")

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(30)
        await client.patch(box(), merge_patch({"spec": {"size": 5}}))
        await asyncio.sleep(30)
        await client.patch(box(), merge_patch({"metadata": {"labels": {"new": "label"}}}))
        await asyncio.sleep(30)
    assert answers == [True, True, True, True, False]


async def test_the_record_is_the_spec_that_was_reconciled() -> None:
    """The reconciled spec is recorded; changes made during the reconcile are the next change."""
    operator = Operator("boxes")
    answers: list[tuple[int | None, int]] = []

    @operator.reconciler(Box, options=OPTIONS)
    async def reconcile(obj: Box, ctx: Context) -> None:
        last = ctx.last_reconciled
        answers.append((last and last.size, obj.spec.size))
        obj.spec.size = 100
        if len(answers) == 1:
            await ctx.client.patch(box(), merge_patch({"spec": {"size": 2}}))

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(30)
    assert answers == [(None, 1), (1, 2)]


async def test_a_spec_that_is_too_large_is_reported_once() -> None:
    """The record says so, an Event has the size, and later reconciles write nothing."""
    operator = Operator("disks")
    answers: list[bool] = []

    @operator.reconciler(Disk, options=OPTIONS)
    async def reconcile(obj: Disk, ctx: Context) -> None:
        answers.append(ctx.changed())

    async with running(operator, Disk) as client:
        await client.create(disk(DiskSpec(labels={"x": "1"})))
        await asyncio.sleep(30)
        await client.patch(disk(DiskSpec()), merge_patch({"spec": {"labels": {"y": "z" * 70_000}}}))
        await asyncio.sleep(30)
        for label in ("1", "2"):
            await client.patch(disk(DiskSpec()), merge_patch({"metadata": {"labels": {"new": label}}}))
            await asyncio.sleep(30)
        assert writes(records(operator)[-1]) == []
        (event,) = await client.list(Event)
        assert event.reason == "SpecTooLarge"
        assert (await client.get(Disk, "default/a")).metadata.annotations[annotation_of("disk")] == "too large"
    assert answers == [True, True, True, True]


@pytest.mark.parametrize("text", ["", "no JSON", "[]", "3"])
async def test_a_damaged_record_is_replaced(text: str) -> None:
    """A damaged record counts as missing, and is replaced."""
    operator = Operator("boxes")
    answers: list[object] = []

    @operator.reconciler(Box, options=OPTIONS)
    def reconcile(request: Request, ctx: BlockingContext) -> None:
        answers.append((ctx.last_reconciled, ctx.changed("spec.size"), len(ctx.difference())))

    async with running(operator) as client:
        await client.create(box(annotations={ANNOTATION: text}))
        await asyncio.sleep(30)
        assert (await client.get(Box, "default/a")).metadata.annotations[ANNOTATION] == '{"size":1}'
    assert answers == [(None, True, 1)]


async def test_an_unstructured_spec_is_a_tree() -> None:
    """Paths of an unstructured spec have JSON names, and are not checked."""
    operator = Operator("boxes")
    answers: list[object] = []

    @operator.reconciler(unstructured_kind("tests.opsdk.dev/v1", "Box"), options=OPTIONS)
    async def reconcile(request: Request, ctx: Context) -> None:
        answers.append((ctx.last_reconciled, ctx.changed("spec.size"), ctx.changed("spec.nothing")))

    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(30)
        await client.patch(box(), merge_patch({"spec": {"size": 5}}))
        await asyncio.sleep(30)
    assert answers == [(None, True, True), ({"size": 1}, True, False)]


async def test_a_write_that_always_conflicts_fails_the_reconcile() -> None:
    """A write that always conflicts fails the reconcile, so that it is retried with its record."""
    operator = Operator("boxes")
    failures = iter(range(6))

    @operator.reconciler(Box, options=OPTIONS)
    async def reconcile(obj: Box, ctx: Context) -> None: ...

    original = SpecRecorder._send

    async def send(self: SpecRecorder, ctx: Context, obj: Any, patch: JsonObject) -> None:
        if next(failures, None) is not None:
            raise ConflictError("the object has been modified")
        await original(self, ctx, obj, patch)

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(SpecRecorder, "_send", send)
        async with running(operator) as client:
            await client.create(box())
            await asyncio.sleep(30)
            assert (await client.get(Box, "default/a")).metadata.annotations[ANNOTATION] == '{"size":1}'
    assert [record.result for record in records(operator)] == ["error", "success"]


@pytest.mark.parametrize("is_plain", [False, True])
async def test_a_reconcile_that_waits_for_a_child_is_no_success_yet(is_plain: bool) -> None:
    """The record is written when the child is ready, from a thread too."""
    operator = Operator("boxes")
    child = ConfigMap(metadata=ObjectMeta(name="child"))

    def is_ready(live: ConfigMap) -> bool:
        return "ready" in live.metadata.labels

    async def reconcile(obj: Box, ctx: Context) -> None:
        await ctx.apply(child, ready=is_ready)

    def reconcile_in_thread(obj: Box, ctx: BlockingContext) -> None:
        ctx.apply(child, ready=is_ready)

    operator.reconciler(Box, owns=[ConfigMap], options=OPTIONS)(reconcile_in_thread if is_plain else reconcile)
    async with running(operator) as client:
        await client.create(box())
        await asyncio.sleep(30)
        assert ANNOTATION not in (await client.get(Box, "default/a")).metadata.annotations
        ready = ConfigMap(metadata=ObjectMeta(name="child", namespace="default"))
        await client.patch(ready, merge_patch({"metadata": {"labels": {"ready": "yes"}}}))
        await asyncio.sleep(30)
        assert (await client.get(Box, "default/a")).metadata.annotations[ANNOTATION] == '{"size":1}'


# ------------------------------------------------------------------ declarations
@pytest.mark.parametrize("place", ["yes", "status", "status.", "spec.size", "status.a.b", True, 3])
def test_a_wrong_place_is_refused(place: Any) -> None:
    """The message has file and line, and says what to write."""
    with pytest.raises(UsageError, match=r'test_last_reconciled.py:\d+: last_reconciled is .*write "annotation"'):
        ControllerOptions(last_reconciled=place)


@pytest.mark.parametrize(
    ("kind", "place", "message"),
    [
        (ConfigMap, "annotation", "needs a spec, and ConfigMap has none"),
        (metadata_only(Box), "annotation", "needs a spec"),
        (Box, "status.last_spec", r"the status of Box has no 'last_spec': add `last_spec: JsonObject"),
        (Disk, "status.lastspec", r"did you mean status.last_spec\?"),
        (Disk, "status.conditions", "the field holds a spec: declare it as"),
    ],
)
def test_a_kind_that_cannot_keep_a_spec_is_refused(kind: Any, place: str, message: str) -> None:
    """A kind that cannot record its spec is refused, with file and line of the declaration."""

    async def reconcile(request: Request) -> None: ...

    with pytest.raises(UsageError, match=rf"test_last_reconciled.py:\d+: .*{message}"):
        Operator("boxes").reconciler(kind, options=ControllerOptions(last_reconciled=place))(reconcile)


def test_requests_without_a_kind_have_no_spec() -> None:
    """The option is refused where the controller has no reconciled kind."""
    with pytest.raises(UsageError, match="last_reconciled needs a reconciled kind"):
        Operator("boxes").reconciler(name="requests", options=OPTIONS)


def test_without_the_option_the_questions_are_refused() -> None:
    """Without the option, asking for changes raises an error that names the option."""
    ctx = Context(request=Request("default", "a"), controller="box")
    for question in (lambda: ctx.last_reconciled, ctx.changed, ctx.difference):
        with pytest.raises(UsageError, match=r'pass ControllerOptions\(last_reconciled="annotation"\)'):
            question()


@pytest.mark.parametrize(
    ("place", "verbs"),
    [("", set()), ("annotation", {"disks patch"}), ("status.last_spec", {"disks/status patch"})],
)
def test_the_option_implies_its_permissions(place: str, verbs: set[str]) -> None:
    """Patches of the object or of its status, and the Event about a spec that is too large."""
    operator = Operator("disks")
    options = ControllerOptions(last_reconciled=place, pausing=None)

    @operator.reconciler(Disk, options=options)
    async def reconcile(obj: Disk) -> None: ...

    rules = {f"{permission.resource} {permission.verb}" for permission in operator.rules()}
    assert {rule for rule in rules if rule.startswith("disks") and "patch" in rule} == verbs
    assert ("events create" in rules) is bool(place)


@pytest.mark.parametrize("controller", ["site", "a" * 100, "Sites of shop", "x/y"])
def test_each_controller_has_an_annotation_that_the_server_accepts(controller: str) -> None:
    """A name that is too long, or no label, is hashed."""
    _, _, name = annotation_of(controller).partition("/")
    assert len(name) <= 63
    assert name.startswith("last-reconciled.")
