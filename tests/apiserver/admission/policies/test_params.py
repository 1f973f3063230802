"""Selection of parameters by a binding, against a naive model."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.selectors import LabelRequirements
from opsdk.apiserver.admission.policies.params import ConfigurationError, collect, source_of
from opsdk.apiserver.admission.policies.policy_source import AdmissionPolicy, PolicyBinding
from opsdk.structured_merge.value import JsonObject

NAMES, SPACES, LABELS = ["a", "b", "c"], ["x", "y"], ["red", "blue"]


@dataclass
class Source:
    """Some objects."""

    namespaced: bool
    objects: list[JsonObject]

    def _in(self, namespace: str) -> list[JsonObject]:
        assert bool(namespace) is self.namespaced
        return [obj for obj in self.objects if obj["metadata"].get("namespace", "") == namespace]

    async def get(self, namespace: str, name: str) -> JsonObject | None:
        return next((obj for obj in self._in(namespace) if obj["metadata"]["name"] == name), None)

    async def select(self, namespace: str, selector: LabelRequirements) -> Sequence[JsonObject]:
        return [obj for obj in self._in(namespace) if selector.matches(obj["metadata"]["labels"])]


REFS = st.fixed_dictionaries(
    {"parameterNotFoundAction": st.sampled_from(["Allow", "Deny"])},
    optional={"namespace": st.sampled_from(SPACES)},
).flatmap(
    lambda ref: st.one_of(
        st.sampled_from(NAMES).map(lambda name: {**ref, "name": name}),
        st.sampled_from(LABELS).map(lambda label: {**ref, "selector": {"matchLabels": {"l": label}}}),
        st.just({**ref, "selector": {}}),
    )
)
OBJECTS = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(SPACES), st.sampled_from(LABELS)),
    unique_by=lambda one: one[:2],
)


def model(ref: JsonObject, objects: list[JsonObject], request: str, *, namespaced: bool) -> list[JsonObject] | str:
    """What the documentation says, one sentence after another; a word of the error instead."""
    if not namespaced and "namespace" in ref:
        return "cluster-scoped `paramKind`"
    namespace = ref.get("namespace", request) if namespaced else ""
    if namespaced and not namespace:
        return "matches cluster-scoped resources"
    result = [obj for obj in objects if obj["metadata"].get("namespace", "") == namespace]
    if "name" in ref:
        result = [obj for obj in result if obj["metadata"]["name"] == ref["name"]]
    else:
        expected = ref["selector"].get("matchLabels", {}).get("l")
        result = [obj for obj in result if expected in (None, obj["metadata"]["labels"]["l"])]
    return "no params found" if not result and ref["parameterNotFoundAction"] == "Deny" else result


@given(REFS, OBJECTS, st.sampled_from(["", *SPACES]), st.booleans())
def test_param_references_select_like_the_model(
    ref: JsonObject, places: list[tuple[str, str, str]], request: str, namespaced: bool
) -> None:
    """A paramRef selects by name or labels in its namespace, else in that of the request."""
    objects: list[JsonObject] = []
    for name, space, label in places:
        if namespaced or space == "x":
            where = {"namespace": space} if namespaced else {}
            objects.append({"metadata": {"name": name, "labels": {"l": label}, **where}})
    binding = PolicyBinding.of({"metadata": {"name": "b"}, "spec": {"policyName": "p", "paramRef": ref}})
    expected = model(ref, objects, request, namespaced=namespaced)
    if isinstance(expected, str):
        with pytest.raises(ConfigurationError, match=expected):
            asyncio.run(collect(Source(namespaced, objects), binding, request))
    else:
        assert asyncio.run(collect(Source(namespaced, objects), binding, request)) == expected


async def test_without_a_kind_or_a_reference_there_is_one_round_without_parameters() -> None:
    """A reference without a kind is ignored, and a kind without a reference gives null."""
    plain = PolicyBinding.of({"metadata": {"name": "b"}, "spec": {"policyName": "p"}})
    ref = {"name": "a", "parameterNotFoundAction": "Deny"}
    binding = PolicyBinding.of({"metadata": {"name": "b"}, "spec": {"policyName": "p", "paramRef": ref}})
    assert await collect(None, binding, "x") == [None]
    assert await collect(Source(True, []), plain, "x") == [None]


@pytest.mark.parametrize(("version", "shown"), [("v1", "/v1"), ("x.example.com/v1", "x.example.com/v1")])
def test_an_unserved_param_kind_is_an_error(version: str, shown: str) -> None:
    """A paramKind that is not served is an error with Go's form of the kind."""
    policy = AdmissionPolicy(
        {"metadata": {"name": "p"}, "spec": {"paramKind": {"apiVersion": version, "kind": "Nope"}}}
    )
    with pytest.raises(ConfigurationError, match=f"paramKind: '{shown}, Kind=Nope'"):
        source_of(policy, lambda _version, _kind: None)
    assert source_of(AdmissionPolicy({"metadata": {"name": "p"}}), lambda _version, _kind: None) is None
