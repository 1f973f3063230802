"""Field ownership: updates, applies, conflicts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.fieldmanager.field_manager import FieldManager
from opsdk.errors import ApiError, BadRequestError, ConflictError
from opsdk.structured_merge.fieldpath import FieldSet
from opsdk.structured_merge.schema import Schema, structural_schema
from opsdk.structured_merge.value import JsonObject
from tests.structured_merge.schemas import SCHEMAS, WIDGET_SCHEMA, WORK

T1, T2, T3 = "2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z", "2026-01-01T00:00:03Z"
assert "Work" in SCHEMAS


def manager(shape: Schema = WORK, **options: Any) -> FieldManager:
    """A field manager of v1."""
    return FieldManager(shape=shape, api_version=options.pop("api_version", "v1"), **options)


def work(uid: str = "u", **fields: Any) -> JsonObject:
    """An object, as stored if it has a uid."""
    return {"apiVersion": "v1", "kind": "Work", "metadata": {"name": "a", **({"uid": uid} if uid else {})}, **fields}


def config(**fields: Any) -> JsonObject:
    """Return a configuration to apply."""
    return work(uid="", **fields)


def owners(obj: JsonObject) -> list[tuple[str, str, Any]]:
    """Manager, operation and fields of each entry."""
    entries = obj["metadata"].get("managedFields", [])
    return [(entry["manager"], entry["operation"], entry["fieldsV1"]) for entry in entries]


def apply(live: JsonObject | None, by: str, *, force: bool = False, now: str = T1, **fields: Any) -> JsonObject:
    """Apply `fields` as `by`."""
    applied = manager().apply(live, config(**fields), manager=by, force=force, now=now)
    return {**applied, "metadata": {**applied["metadata"], "uid": "u"}}


def update(live: JsonObject | None, by: str, *, now: str = T1, **fields: Any) -> JsonObject:
    """Write an object with `fields` as `by`."""
    new = work(**fields)
    return manager().update(live, new, manager=by, now=now)


# ------------------------------------------------------------------ updates
def test_a_creator_owns_what_it_sets_beyond_the_zero_value() -> None:
    """Objects that are there anyway are not owned; maps and what is in them are."""
    created = update(None, "m", data={"x": "1"}, spec={"replicas": 1, "containers": [{"name": "c", "image": "i"}]})
    assert created["metadata"]["managedFields"] == [
        {
            "manager": "m",
            "operation": "Update",
            "apiVersion": "v1",
            "time": T1,
            "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:data": {".": {}, "f:x": {}},
                "f:spec": {
                    "f:containers": {'k:{"name":"c"}': {".": {}, "f:image": {}, "f:name": {}}},
                    "f:replicas": {},
                },
            },
        }
    ]


def test_a_creator_of_a_custom_resource_also_owns_its_parts() -> None:
    """The creator of a custom resource also manages parent fields, because there is no zero value."""
    new = {"apiVersion": "g/v1", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"tags": ["x"]}}
    created = manager(structural_schema(WIDGET_SCHEMA), api_version="g/v1").update(None, new, manager="m", now=T1)
    assert owners(created) == [("m", "Update", {"f:spec": {".": {}, "f:tags": {".": {}, 'v:"x"': {}}}})]


def test_identity_is_never_owned() -> None:
    """An object with nothing else has no owners."""
    assert "managedFields" not in update(None, "m")["metadata"]


def test_changing_a_field_takes_it() -> None:
    """An update that changes a value becomes its only manager; other fields keep their managers."""
    live = update(None, "one", data={"x": "1", "y": "1"})
    live = update(live, "two", now=T2, data={"x": "2", "y": "1"})
    assert owners(live) == [
        ("one", "Update", {"f:data": {".": {}, "f:y": {}}}),
        ("two", "Update", {"f:data": {"f:x": {}}}),
    ]


def test_removing_a_field_removes_its_owners() -> None:
    """A removed field has no managers."""
    live = update(None, "one", data={"x": "1", "y": "1"})
    assert owners(update(live, "two", data={"y": "1"})) == [("one", "Update", {"f:data": {".": {}, "f:y": {}}})]
    assert owners(update(live, "two")) == []


def test_writing_the_same_changes_nothing() -> None:
    """A write without change keeps every entry and every time."""
    live = update(None, "one", data={"x": "1"})
    assert update(live, "two", now=T2, data={"x": "1"}) == live
    assert update(live, "one", now=T2, data={"x": "1"}) == live


def test_entries_sent_by_the_client_count() -> None:
    """A client may edit managedFields; an invalid entry changes nothing."""
    live = update(None, "one", data={"x": "1"})
    entry = {**live["metadata"]["managedFields"][0], "manager": "renamed"}
    sent = {**work(data={"x": "1"}), "metadata": {"name": "a", "uid": "u", "managedFields": [entry]}}
    assert [name for name, _, _ in owners(manager().update(live, sent, manager="two", now=T2))] == ["renamed"]
    sent["metadata"]["managedFields"] = [{"manager": "bad", "operation": "Steal"}]
    assert [name for name, _, _ in owners(manager().update(live, sent, manager="two", now=T2))] == ["one"]
    status = manager(subresource="status").update(live, sent, manager="two", now=T2)
    assert [name for name, _, _ in owners(status)] == ["one"]


@pytest.mark.parametrize("reset", [[], [{}]])
def test_managed_fields_can_be_reset(reset: list[Any]) -> None:
    """Empty managedFields reset all managers until the next apply, which records the existing fields."""
    live = update(None, "one", data={"x": "1"})
    sent = {**work(data={"x": "1"}), "metadata": {"name": "a", "uid": "u", "managedFields": reset}}
    live = manager().update(live, sent, manager="two", now=T2)
    assert owners(live) == []
    live = update(live, "two", data={"x": "2"})
    assert owners(live) == []
    with pytest.raises(ConflictError, match=r'conflict with "before-first-apply" using v1: \.data\.x'):
        apply(live, "three", data={"x": "3"})
    assert [name for name, _, _ in owners(apply(live, "three", data={"y": "3"}))] == ["three", "before-first-apply"]


def test_many_updaters_are_folded() -> None:
    """The oldest updaters share one entry, so that there are never more than ten; nothing owned is lost."""
    live: JsonObject = update(None, "m00", data={"k00": "x"})
    for number in range(1, 15):
        data = {**live["data"], f"k{number:02}": "x"}
        live = update(live, f"m{number:02}", now=f"2026-01-01T00:00:{number + 1:02}Z", data=data)
    names = [name for name, _, _ in owners(live)]
    assert len(names) == 10
    assert names[0] == "ancient-changes"
    owned = [FieldSet.from_fields_v1(fields) for _, _, fields in owners(live)]
    union = FieldSet()
    for fields in owned:
        union |= fields
    assert all(union.contains(["f:data", f"f:k{number:02}"]) for number in range(15))


def test_reset_fields_belong_to_another_endpoint() -> None:
    """The main endpoint manages no status fields, and the status endpoint no spec fields."""
    main = manager(reset_fields=FieldSet.of(("f:status",)))
    created = main.update(None, work(spec={"replicas": 1}, status={"phase": "Up"}), manager="m", now=T1)
    assert owners(created) == [("m", "Update", {"f:spec": {"f:replicas": {}}})]
    status = manager(subresource="status", reset_fields=FieldSet.of(("f:spec",)))
    live = status.update(created, work(spec={"replicas": 2}, status={"phase": "Down"}), manager="m", now=T2)
    assert ("m", "Update", {"f:status": {"f:phase": {}}}) in owners(live)
    assert live["metadata"]["managedFields"][1]["subresource"] == "status"


# ------------------------------------------------------------------ applies
def test_an_applier_owns_exactly_what_it_applied() -> None:
    """An applier manages the applied fields, and neither defaults nor parent fields."""
    live = apply(None, "one", data={"x": "1"}, spec={"containers": [{"name": "c"}]})
    assert owners(live) == [
        (
            "one",
            "Apply",
            {"f:data": {"f:x": {}}, "f:spec": {"f:containers": {'k:{"name":"c"}': {".": {}, "f:name": {}}}}},
        )
    ]


def test_appliers_of_one_value_share_it() -> None:
    """Two appliers of one value both manage it, and an apply without change keeps its time."""
    live = apply(apply(None, "one", data={"x": "1"}), "two", now=T2, data={"x": "1"})
    assert [(entry["manager"], entry.get("time")) for entry in live["metadata"]["managedFields"]] == [
        ("two", None),
        ("one", T1),
    ]


def test_another_value_is_a_conflict() -> None:
    """Applying a different value is a conflict that names the manager and the field."""
    live = apply(None, "one", data={"x": "1"})
    with pytest.raises(ConflictError) as caught:
        apply(live, "two", data={"x": "2"})
    error = caught.value
    assert error.message == 'Apply failed with 1 conflict: conflict with "one": .data.x'
    assert (error.code, error.reason, error.details.kind) == (409, "Conflict", "")
    assert [(cause.reason, cause.message, cause.field) for cause in error.details.causes] == [
        ("FieldManagerConflict", 'conflict with "one"', ".data.x")
    ]


def test_many_conflicts() -> None:
    """Several conflicts are listed by owner."""
    live = apply(apply(None, "one", data={"x": "1", "y": "1"}), "two", data={"x": "1"})
    with pytest.raises(ConflictError) as caught:
        apply(live, "three", data={"x": "3", "y": "3"})
    assert caught.value.message == (
        'Apply failed with 3 conflicts: conflicts with "one":\n- .data.x\n- .data.y\nconflicts with "two":\n- .data.x'
    )


def test_force_takes_ownership() -> None:
    """A forced apply becomes the only manager of the fields that it changed."""
    live = apply(None, "one", data={"x": "1", "y": "1"})
    live = apply(live, "two", force=True, now=T2, data={"x": "2"})
    assert live["data"] == {"x": "2", "y": "1"}
    assert owners(live) == [
        ("one", "Apply", {"f:data": {"f:y": {}}}),
        ("two", "Apply", {"f:data": {"f:x": {}}}),
    ]


def test_what_is_no_longer_applied_goes() -> None:
    """A field is removed with its last manager; fields of other managers stay."""
    live = apply(apply(None, "one", data={"x": "1", "y": "1"}), "two", data={"y": "1"})
    live = apply(live, "one", data={})
    assert live["data"] == {"y": "1"}
    live = apply(live, "two")
    assert not live.get("data")


def test_what_an_updater_owns_stays() -> None:
    """A field that an update manages stays when its applier stops applying it."""
    live = apply(None, "one", data={"x": "1"})
    live = update(live, "editor", now=T2, data={"x": "2"})
    assert owners(live) == [("editor", "Update", {"f:data": {"f:x": {}}})]
    live = apply(live, "one", data={"z": "1"}, now=T3)
    assert live["data"] == {"x": "2", "z": "1"}


def test_conflicts_with_updaters_say_the_version() -> None:
    """A conflict with an update names the version too, because updates have an entry for each version."""
    live = update(None, "editor", data={"x": "1"})
    with pytest.raises(ConflictError, match=r'conflict with "editor" using v1: \.data\.x'):
        apply(live, "one", data={"x": "2"})


def test_conflicts_say_the_subresource() -> None:
    """The manager of a subresource is a separate manager."""
    status = manager(subresource="status")
    live = status.apply(work(), config(status={"phase": "Up"}), manager="kubelet", force=False, now=T1)
    with pytest.raises(ConflictError, match=r'with subresource "status": \.status\.phase'):
        status.apply(live, config(status={"phase": "Down"}), manager="other", force=False, now=T1)


def test_elements_of_a_keyed_list_have_their_own_owners() -> None:
    """Two appliers can share a list, and each removes only its own elements."""
    live = apply(None, "one", spec={"containers": [{"name": "c", "image": "i"}]})
    live = apply(live, "two", spec={"containers": [{"name": "side", "image": "s"}]})
    assert [container["name"] for container in live["spec"]["containers"]] == ["c", "side"]
    live = apply(live, "one", spec={"replicas": 1})
    assert live["spec"]["containers"] == [{"name": "side", "image": "s"}]


def test_atomic_values_are_owned_as_a_whole() -> None:
    """A part of an atomic map cannot be applied if another manager owns the map."""
    live = apply(None, "one", spec={"nodeSelector": {"a": "1", "b": "2"}})
    with pytest.raises(ConflictError, match=r"\.spec\.nodeSelector"):
        apply(live, "two", spec={"nodeSelector": {"a": "1"}})
    live = apply(live, "two", force=True, spec={"nodeSelector": {"a": "1"}})
    assert live["spec"]["nodeSelector"] == {"a": "1"}


def test_applying_the_same_again_changes_nothing() -> None:
    """Apply is idempotent, including times."""
    live = apply(None, "one", data={"x": "1"}, spec={"containers": [{"name": "c"}]})
    assert apply(live, "one", now=T2, data={"x": "1"}, spec={"containers": [{"name": "c"}]}) == live


DATA = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)


@given(st.lists(st.tuples(st.sampled_from(["one", "two", "three"]), DATA, st.booleans()), max_size=6))
def test_appliers_never_lose_track(steps: list[tuple[str, dict[str, str], bool]]) -> None:
    """After any applies, each field has a manager and the value of its last apply, and no other field exists."""
    live: JsonObject = work()
    expected: dict[str, dict[str, str]] = {}
    for by, data, force in steps:
        try:
            live = apply(live, by, force=force, data=data)
        except ConflictError:
            continue
        for other in expected.values():
            for key, value in data.items():
                if other.get(key, value) != value:
                    del other[key]
        expected[by] = dict(data)
    union: dict[str, str] = {}
    for applied in expected.values():
        union |= applied
    assert (live.get("data") or {}) == union
    for name, _, fields in owners(live):
        owned = {path[1][2:] for path in FieldSet.from_fields_v1(fields) if len(path) == 2}
        assert owned == set(expected[name])


# ------------------------------------------------------------------ refusals
def test_managed_fields_cannot_be_applied() -> None:
    """An apply with managedFields is an error."""
    bad = {**config(), "metadata": {"name": "a", "managedFields": []}}
    with pytest.raises(BadRequestError, match=r"metadata\.managedFields must be nil"):
        manager().apply(None, bad, manager="m", force=False, now=T1)


def test_the_version_must_be_that_of_the_endpoint() -> None:
    """A configuration of another version would be merged by the wrong schema."""
    with pytest.raises(BadRequestError, match="Specified patch version: v2, expected: v1"):
        manager().apply(None, {**config(), "apiVersion": "v2"}, manager="m", force=False, now=T1)


def test_what_does_not_fit_the_type_is_reported() -> None:
    """The error names the object, the field and the problem."""
    with pytest.raises(ApiError) as caught:
        apply(None, "m", data={"x": 1})
    assert (caught.value.code, caught.value.reason) == (500, "")
    assert caught.value.message == (
        "failed to create typed patch object (/a; /v1, Kind=Work): "
        ".data.x: expected string, got &value.valueUnstructured{Value:1}"
    )


# ------------------------------------------------------------------ versions
V2 = structural_schema(
    {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {}, "color": {}}}}}
)
V1 = structural_schema(
    {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {}, "note": {}}}}}
)


def widget(version: str, **spec: Any) -> JsonObject:
    """A custom resource."""
    return {"apiVersion": version, "kind": "Widget", "metadata": {"name": "a", "uid": "u"}, "spec": spec}


def versioned(version: str, *, known: bool = True) -> FieldManager:
    """The field manager of one version of two."""
    shapes = {"g/v1": V1, "g/v2": V2}
    return FieldManager(shape=shapes[version], api_version=version, shapes=shapes if known else None)


def test_owners_by_other_versions_conflict_too() -> None:
    """Managers of other versions conflict too."""
    live = versioned("g/v1").apply(None, widget("g/v1", size=1), manager="one", force=False, now=T1)
    live = {**live, "apiVersion": "g/v2"}
    with pytest.raises(ConflictError, match=r'conflict with "one": \.spec\.size'):
        versioned("g/v2").apply(live, widget("g/v2", size=2), manager="two", force=False, now=T1)
    live = versioned("g/v2").apply(live, widget("g/v2", size=2), manager="two", force=True, now=T1)
    assert [(name, fields) for name, _, fields in owners(live)] == [("two", {"f:spec": {"f:size": {}}})]


def test_what_another_version_cannot_hold_is_an_error() -> None:
    """If a field does not exist in another version, an apply fails, and an update drops its managers."""
    live = versioned("g/v1").apply(None, widget("g/v1", size=1), manager="one", force=False, now=T1)
    live = {**live, "apiVersion": "g/v2"}
    with pytest.raises(ApiError, match=r"failed to convert new object: \.spec\.color: field not declared in schema"):
        versioned("g/v2").apply(live, widget("g/v2", color="red"), manager="two", force=False, now=T1)
    assert owners(versioned("g/v2").update(live, widget("g/v2", size=1, color="red"), manager="two", now=T1)) == []


def test_elements_that_stand_twice_have_no_form_in_other_versions() -> None:
    """In its own version, an object may have them (they were there before); converting it loses the owners."""
    words = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    spec = {"type": "object", "properties": {"words": words}}
    shape = structural_schema({"type": "object", "properties": {"spec": spec}})

    def manager(version: str) -> FieldManager:
        return FieldManager(shape=shape, api_version=version, shapes={"g/v1": shape, "g/v2": shape})

    first = manager("g/v1").update(None, widget("g/v1", words=["a"]), manager="one", now=T1)
    twice = widget("g/v1", words=["a", "a"])
    assert owners(manager("g/v1").update(first, twice, manager="two", now=T1))
    twice["apiVersion"] = "g/v2"
    assert owners(manager("g/v2").update({**first, "apiVersion": "g/v2"}, twice, manager="two", now=T1)) == []


def test_managers_of_unknown_versions_are_kept_or_dropped() -> None:
    """Managers of an unknown version stay if versions are not known, and go if the version no longer exists."""
    live = versioned("g/v1").apply(None, widget("g/v1", size=1), manager="one", force=False, now=T1)
    entry = {**live["metadata"]["managedFields"][0], "manager": "old", "apiVersion": "g/v0"}
    live["metadata"]["managedFields"].append(entry)
    new = widget("g/v1", size=1, note="n")
    managed = versioned("g/v1", known=False).update(live, new, manager="two", now=T2)
    assert "old" in [name for name, _, _ in owners(managed)]
    dropped = versioned("g/v1").update(live, new, manager="two", now=T2)
    assert "old" not in [name for name, _, _ in owners(dropped)]


# ------------------------------------------------------------------ kubectl
LAST = "kubectl.kubernetes.io/last-applied-configuration"


def test_kubectl_has_no_conflicts_about_what_it_applied_before() -> None:
    """Fields in the last-applied annotation belong to kubectl, and the annotation is kept current."""
    text = '{"apiVersion":"v1","kind":"Work","metadata":{"name":"a"},"data":{"x":"1"}}'
    new = work(data={"x": "1", "y": "1"})
    new["metadata"]["annotations"] = {LAST: text}
    live = manager().update(None, new, manager="kubectl-client-side-apply", now=T1)
    with pytest.raises(ConflictError):
        apply(live, "other", data={"x": "2"})
    with pytest.raises(ConflictError, match=r"1 conflict.*: \.data\.y"):
        apply(live, "kubectl", data={"x": "2", "y": "2"})
    applied = apply(live, "kubectl", data={"x": "2"})
    assert applied["data"] == {"x": "2", "y": "1"}
    assert '"data":{"x":"2"}' in applied["metadata"]["annotations"][LAST]
