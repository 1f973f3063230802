"""The admission chain and the reviews that the verbs make."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from server_caller import APPLY, MERGE, Caller

from envtest.environment import Environment
from opsdk.apiserver import api_errors
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.chain import PLUGIN_ORDER, Chain

CM = "/api/v1/namespaces/default/configmaps"


class Recorder:
    """A plugin that records its calls, adds labels, and refuses the names of its list."""

    def __init__(self, *, label: str = "", refuse: str = "", again: bool = False) -> None:
        self.seen: list[tuple[str, Attributes]] = []
        self._label = label
        self._refuse = refuse
        self._again = again

    async def mutate(self, review: Attributes) -> None:
        self.seen.append(("mutate", review))
        review.reinvoke = review.reinvoke or self._again
        if self._label and review.obj is not None:
            meta = review.obj["metadata"]
            labels = {**(meta.get("labels") or {}), self._label: "yes"}
            review.obj = {**review.obj, "metadata": {**meta, "labels": labels}}

    async def validate(self, review: Attributes) -> None:
        self.seen.append(("validate", review))
        if review.operation == self._refuse:
            raise api_errors.forbidden(review.served.info, review.name, "no")

    def told(self) -> list[tuple[str, str, Any]]:
        return [(step, review.operation, review.options.get("kind")) for step, review in self.seen]


@given(st.permutations([name for name in PLUGIN_ORDER if name]))
def test_the_chain_is_ordered_by_place_whatever_came_first(names: list[str]) -> None:
    """Plugins run in their defined order, not in the order of registration."""
    chain = Chain()
    for name in names:
        chain.add(name, Recorder())
    chain.add("MyOwn", Recorder())
    assert list(chain.plugins) == [name or "MyOwn" for name in PLUGIN_ORDER]
    chain.remove("MyOwn")
    chain.remove("MyOwn")
    assert "MyOwn" not in chain.plugins


async def test_each_write_is_reviewed_with_the_options_of_what_it_does() -> None:
    """POST, PUT, patches, apply and DELETE are reviewed as CREATE, UPDATE, DELETE in both rounds."""
    async with Environment() as env:
        plugin = Recorder()
        env.plane.core.admission.add("Test", plugin)
        call = Caller(env)
        await call("POST", f"{CM}?fieldManager=me", {"metadata": {"generateName": "a-"}})
        first = plugin.seen[0][1]
        assert (first.name, first.namespace, first.old) == ("", "default", None)
        assert first.options == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me"}
        assert plugin.seen[1][1].name.startswith("a-")
        plugin.seen.clear()
        config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}}
        await call("PATCH", f"{CM}/b?fieldManager=me&force=true", config, content_type=APPLY)
        await call("PATCH", f"{CM}/b", {"data": {"k": "v"}}, content_type=MERGE)
        await call("PUT", f"{CM}/b?dryRun=All", {"metadata": {"name": "b"}})
        await call("DELETE", f"{CM}/b", {"propagationPolicy": "Background"})
        assert plugin.told() == [
            (step, *kind)
            for kind in (
                ("CREATE", "CreateOptions"),
                ("UPDATE", "UpdateOptions"),
                ("UPDATE", "UpdateOptions"),
                ("DELETE", "DeleteOptions"),
            )
            for step in ("mutate", "validate")
        ]
        updated, deleted = plugin.seen[4][1], plugin.seen[-1][1]
        assert updated.dry_run
        assert updated.old is not None
        assert updated.old["data"] == {"k": "v"}
        assert deleted.obj is None
        assert deleted.options["propagationPolicy"] == "Background"
        assert (deleted.kind.kind, deleted.resource.resource, deleted.user.name) == ("ConfigMap", "configmaps", "admin")


async def test_what_admission_adds_is_owned_by_nobody() -> None:
    """``managedFields`` record what the client wrote, not the changes of plugins."""
    async with Environment() as env:
        env.plane.core.admission.add("Test", Recorder(label="by-plugin"))
        stored = (await Caller(env)("POST", CM, {"metadata": {"name": "a"}, "data": {"x": "1"}})).json
        assert stored["metadata"]["labels"] == {"by-plugin": "yes"}
        assert stored["metadata"]["managedFields"][0]["fieldsV1"] == {"f:data": {".": {}, "f:x": {}}}


async def test_what_admission_undoes_is_not_written() -> None:
    """A patch whose effect admission reverts keeps the resourceVersion."""
    async with Environment() as env:
        env.plane.core.admission.add("Test", Recorder(label="kept"))
        call = Caller(env)
        stored = (await call("POST", CM, {"metadata": {"name": "a"}})).json
        again = await call("PATCH", f"{CM}/a", {"metadata": {"labels": None}}, content_type=MERGE)
        assert again.json["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
async def test_nothing_is_stored_where_validation_refuses(operation: str) -> None:
    """A rejected create, update or delete leaves every object and the revision unchanged."""
    async with Environment() as env:
        call = Caller(env)
        await call("POST", CM, {"metadata": {"name": "old"}})
        before = (await call("GET", CM)).json
        env.plane.core.admission.add("Test", Recorder(refuse=operation))
        changed = {"metadata": {"name": "old"}, "data": {"a": "b"}}
        answer = await {
            "CREATE": lambda: call("POST", CM, {"metadata": {"name": "a"}}),
            "UPDATE": lambda: call("PUT", f"{CM}/old", changed),
            "DELETE": lambda: call("DELETE", CM),
        }[operation]()
        assert answer.status == 403
        assert (await call("GET", CM)).json == before


async def test_a_second_round_runs_at_most_once() -> None:
    """A plugin that requests reinvocation runs a second time, and no third time."""
    async with Environment() as env:
        plugin = Recorder(again=True)
        env.plane.core.admission.add("Test", plugin)
        await Caller(env)("POST", CM, {"metadata": {"name": "a"}})
        assert [step for step, _ in plugin.seen] == ["mutate", "mutate", "validate"]


async def test_unreadable_owners_are_put_back() -> None:
    """If a plugin breaks managedFields, the former ones are restored with a warning."""

    class Breaker(Recorder):
        async def mutate(self, review: Attributes) -> None:
            assert review.obj is not None
            broken = {**review.obj["metadata"], "managedFields": [{"operation": "Nonsense"}]}
            review.obj = {**review.obj, "metadata": broken}

    async with Environment() as env:
        env.plane.core.admission.add("Test", Breaker())
        response = await Caller(env)("POST", CM, {"metadata": {"name": "a"}, "data": {"x": "1"}})
        assert response.json["metadata"]["managedFields"][0]["manager"] == "tests"
        assert ".metadata.managedFields was in an invalid state after admission" in response.headers["warning"]
