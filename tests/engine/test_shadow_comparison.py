"""The comparison of two operators without clusters: any order of their changes, and of the changes of others."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apiserver.storage.objects import same_but_revision
from opsdk.engine.ownership import own_part
from opsdk.engine.shadow.comparison import ShadowComparison
from opsdk.engine.shadow.decisions import created_by, presence_of, split_change
from opsdk.structured_merge.value import JsonObject

OPERATOR, USER = "shop", "user"
KEY = "core/configmaps/default/a"
WAIT = 10.0
Fields = dict[str, str]


def managed(manager: str, top: str, fields: Fields, **more: str) -> JsonObject:
    """An entry of managedFields for some fields below one of the object."""
    entry: JsonObject = {"manager": manager, "operation": "Update", "apiVersion": "v1", **more}
    return {**entry, "fieldsType": "FieldsV1", "fieldsV1": {f"f:{top}": {f"f:{name}": {} for name in fields}}}


def make(own: Fields, others: Fields, *, uid: str = "1", version: int = 1) -> JsonObject:
    """An object whose spec is the operator's, and whose labels are the user's."""
    fields = {f"f:{name}": {} for name in others}
    labels: JsonObject = {"manager": USER, "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": fields}}}
    entries = [managed(OPERATOR, "spec", own)] if own else []
    metadata = {"name": "a", "namespace": "default", "uid": uid, "resourceVersion": str(version), "labels": others}
    managed_metadata = {**metadata, "managedFields": [*entries, labels]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": managed_metadata, "spec": own}


class Model:
    """A cluster and its fork with one object, which an operator in each of them and a user change."""

    def __init__(self) -> None:
        self.comparison = ShadowComparison({OPERATOR}, wait=WAIT)
        self.numbers = count(2)
        self.live: JsonObject | None = make({"base": "0", "size": "1"}, {})
        self.fork: JsonObject | None = self.live
        self.now = 0.0

    def in_cluster(self, own: Fields | None, others: Fields) -> None:
        """Change the object in the cluster; None removes it."""
        before, number = self.live, next(self.numbers)
        uid = before["metadata"]["uid"] if before is not None else str(number)
        self.live = None if own is None else make(own, others, uid=uid, version=number)
        if before is not None or self.live is not None:
            self.fork = self.comparison.on_cluster_event(
                self.now, KEY, before, self.live, fork=self.fork, collected=False
            )

    def in_fork(self, own: Fields | None) -> None:
        """Change the object as the operator in the fork; None removes it."""
        before, number = self.fork, next(self.numbers)
        if before is None and own is None:
            return
        labels = {} if before is None else before["metadata"]["labels"]
        uid = f"fork-{number}" if before is None else before["metadata"]["uid"]
        self.fork = None if own is None else make(own, labels, uid=uid, version=number)
        self.comparison.on_shadow_write(self.now, KEY, before, self.fork)
        if before is None and self.fork is not None and self.live is not None:
            self.fork = self.comparison.adopted(self.fork, self.live)

    def act(self, who: str, name: str, value: str) -> None:
        """Let one of the three change a field; the value "gone" removes it, the name "object" the whole object."""
        obj = self.fork if who == "shadow" else self.live
        own = {} if obj is None else dict(obj["spec"])
        others = {} if obj is None else dict(obj["metadata"]["labels"])
        if who == "user":
            if self.live is not None:
                self.in_cluster(own, with_field(others, name, value))
        elif name == "object" and value == "gone":
            self.in_fork(None) if who == "shadow" else self.in_cluster(None, {})
        else:
            changed = {"base": "0", **with_field(own, name, value)}
            self.in_fork(changed) if who == "shadow" else self.in_cluster(changed, others)

    def judge(self) -> None:
        """Let the wait pass, and compare."""
        self.now += WAIT
        for key in self.comparison.due(self.now):
            judgement = self.comparison.judge(self.now, key, cluster=lambda _: self.live, fork=lambda _: self.fork)
            if key in judgement.placements:
                self.fork = judgement.placements[key]


def with_field(fields: Fields, name: str, value: str) -> Fields:
    """The fields with a new value of one of them."""
    rest = {key: item for key, item in fields.items() if key != name}
    return rest if value == "gone" else {**rest, name: value}


ACTIONS = st.tuples(
    st.sampled_from(["leader", "shadow", "user"]),
    st.sampled_from(["size", "color", "object"]),
    st.sampled_from(["1", "2", "gone"]),
    st.sampled_from([0.0, 1.0, WAIT]),
)


@given(st.lists(ACTIONS, max_size=12))
def test_what_lasts_is_what_differs(actions: list[tuple[str, str, str, float]]) -> None:
    """After any history: the fields that the two leave otherwise, no more and no fewer. Others reach the fork.

    If nothing differs, the fork has the object of the cluster itself.
    """
    model = Model()
    for who, name, value, pause in actions:
        model.act(who, name, value)
        model.now += pause
        if pause == WAIT:
            model.judge()
    model.judge()
    live, fork = model.live, model.fork
    lasting = {each.path: (each.leader, each.shadow) for each in model.comparison.disagreements}
    if presence_of(live) is not presence_of(fork):
        assert lasting == {"": (presence_of(live).value, presence_of(fork).value)}
    elif live is not None and fork is not None:
        leader, shadow = live["spec"], fork["spec"]
        differing = {name for name in {**leader, **shadow} if leader.get(name) != shadow.get(name)}
        assert {path.rpartition(".")[2] for path in lasting} == differing
        assert fork["metadata"]["labels"] == live["metadata"]["labels"]
        assert fork["metadata"]["uid"] == live["metadata"]["uid"]
        if not differing:
            assert same_but_revision(fork, live)


@given(st.permutations([("leader", "2"), ("shadow", "2"), ("user", "3"), ("user", "4")]))
def test_nothing_is_compared_before_the_wait_has_passed(order: list[tuple[str, str]]) -> None:
    """Whoever is first: within the wait, one side may be later than the other."""
    model = Model()
    for who, value in order:
        model.act(who, "size", value)
        model.now += WAIT / 4
        assert model.comparison.due(model.now) == [] or model.now >= WAIT
    model.judge()
    assert model.comparison.disagreements == []
    assert model.comparison.agreed == 1


def test_a_later_decision_ends_a_disagreement() -> None:
    """It is counted as late, and no longer lasts."""
    model = Model()
    model.act("leader", "size", "2")
    model.judge()
    assert [each.path for each in model.comparison.disagreements] == ["spec.size"]
    model.act("shadow", "size", "2")
    model.judge()
    assert model.comparison.disagreements == []
    assert model.comparison.late == 1


def test_objects_with_generated_names_are_paired() -> None:
    """The server gives each its own name; the fork goes on with that of the cluster."""
    comparison = ShadowComparison({OPERATOR}, wait=WAIT)
    objects: dict[str, dict[str, JsonObject]] = {"cluster": {}, "fork": {}}

    def create(where: str, suffix: str, size: str) -> None:
        obj = make({"size": size}, {})
        obj["metadata"] |= {"name": f"job-{suffix}", "generateName": "job-"}
        objects[where][f"batch/jobs/default/job-{suffix}"] = obj

    create("cluster", "x1", "1")
    create("fork", "y1", "1")
    create("fork", "y2", "2")
    for key, obj in objects["cluster"].items():
        assert comparison.on_cluster_event(0, key, None, obj, fork=None, collected=False) is None
    for key, obj in objects["fork"].items():
        comparison.on_shadow_write(0, key, None, obj)
    for key in comparison.due(WAIT):
        judgement = comparison.judge(WAIT, key, cluster=objects["cluster"].get, fork=objects["fork"].get)
        for place, placed in judgement.placements.items():
            objects["fork"].pop(place, None)
            if placed is not None:
                objects["fork"][place] = placed
    assert sorted(objects["fork"]) == ["batch/jobs/default/job-x1", "batch/jobs/default/job-y2"]
    assert [each.subject for each in comparison.disagreements] == ["ConfigMap default/job-y2"]


@pytest.mark.parametrize(
    ("before", "after", "missed"),
    [
        (None, make({"size": "1"}, {}), 1),
        (make({"size": "1"}, {}), make({"size": "2"}, {}, version=2), 1),
        (make({"size": "1"}, {}), None, 1),
        (make({"size": "1"}, {}), make({"size": "1"}, {"team": "a"}, version=2), 0),
        (make({}, {}), None, 0),
    ],
)
def test_a_change_beside_the_comparison_is_the_leaders_if_its_fields_differ(
    before: JsonObject | None, after: JsonObject | None, missed: int
) -> None:
    """Just before it, or after it."""
    comparison = ShadowComparison({OPERATOR}, wait=WAIT)
    comparison.on_missed_event(before, after)
    assert comparison.missed == missed


def test_what_the_leader_wrote_before_is_counted_with_its_time() -> None:
    """By its entries in managedFields, of which an old one may have no time."""
    first, second, foreign = make({"size": "1"}, {}), make({"size": "1"}, {}), make({}, {"team": "a"})
    second["metadata"]["managedFields"][0]["time"] = "2026-01-01T00:00:00Z"
    assert ShadowComparison({OPERATOR}, wait=WAIT).owned([first, second, foreign]) == (2, "2026-01-01T00:00:00Z")
    assert ShadowComparison({"other"}, wait=WAIT).owned([first]) == (0, "")


# ---------------------------------------------------------------- whose change it is
def test_lists_are_split_by_their_keys() -> None:
    """The operator owns one container, an injector another one."""
    containers = [{"name": "app", "image": "a"}, {"name": "proxy", "image": "b"}]
    fields = {"f:spec": {"f:containers": {'k:{"name":"app"}': {".": {}, "f:name": {}, "f:image": {}}}}}
    obj: JsonObject = {
        "kind": "Pod",
        "metadata": {"managedFields": [{"manager": f"{OPERATOR}/web", "fieldsV1": fields}]},
        "spec": {"containers": containers},
    }
    assert own_part(obj, {OPERATOR}) == {"spec": {"containers": [{"name": "app", "image": "a"}]}}
    finalizers = {"f:metadata": {"f:finalizers": {".": {}, 'v:"b"': {}}}}
    finalized: JsonObject = {
        "kind": "Pod",
        "metadata": {"finalizers": ["a", "b"], "managedFields": [{"manager": OPERATOR, "fieldsV1": finalizers}]},
    }
    assert own_part(finalized, {OPERATOR}) == {"metadata": {"finalizers": ["b"]}}


def test_a_field_that_another_takes_over_is_a_change_of_that_one() -> None:
    """The leader did not decide it, so the shadow gets it at once."""
    before, after = make({"size": "1"}, {}), make({"size": "9"}, {})
    after["metadata"]["managedFields"] = [managed(USER, "spec", {"size": "9"})]
    change = split_change(before, after, {OPERATOR})
    assert change.own == []
    assert change.others == {"spec": {"size": "9"}}


@pytest.mark.parametrize(
    ("more", "is_leaders"),
    [
        ([], True),
        ([managed("kube-controller-manager", "spec", {"replicas": "3"})], True),
        ([managed("autoscaler", "spec", {"replicas": "3"}, subresource="scale")], True),
        ([managed(USER, "spec", {"color": "red"})], False),
    ],
)
def test_an_object_is_of_who_owns_its_content(more: list[JsonObject], is_leaders: bool) -> None:
    """A deletion has no author: the object tells whose it probably is."""
    obj = make({"size": "1"}, {})
    obj["metadata"]["managedFields"] = [managed(OPERATOR, "spec", {"size": "1"}), *more]
    assert created_by(obj, {OPERATOR}) is is_leaders
