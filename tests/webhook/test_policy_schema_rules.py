"""Rules of a schema as rules of a policy: both decide the same about each object."""

from __future__ import annotations

import random
from typing import Annotated, Any

import pytest
from msgspec import Meta, field

import envtest
from opsdk import Client, Cluster, GroupVersionKind, Model, Object, Operator, UsageError, crd_for
from opsdk.apimachinery.crd import Rule, json_schema, validations
from opsdk.apimachinery.crd_markers import RULES
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.object import Unstructured
from opsdk.engine.policies import apply_policies
from opsdk.errors import ApiError
from opsdk.structured_merge.value import JsonObject
from opsdk.webhook.policies import policy
from opsdk.webhook.policy_schema_rules import schema_rules


class Door(Model):
    """A part with a rule."""

    width: int = 1
    rules = (Rule("self.width < 4", message="too wide"),)


AT_MOST = "'at most some'"


class BarnSpec(Model):
    """Rules of the object, of fields, of elements and of values, with and without the old value."""

    size: Annotated[int, validations(Rule("self != 3", message="never 3"))] = 1
    doors: Annotated[list[Door], Meta(max_length=5)] = field(default_factory=list)
    by_name: Annotated[dict[str, Door], Meta(max_length=5)] = field(default_factory=dict)
    note: Annotated[str | None, json_schema({"nullable": True}), validations(Rule("self.size() < 3"))] = None
    rules = (
        Rule("self.size >= oldSelf.size", message="never smaller"),
        Rule("self.doors.size() <= self.size", message_expression=AT_MOST, field_path=".doors"),
    )


class Barn(Object[BarnSpec, None]):
    """A kind."""

    gvk = GroupVersionKind("barns.opsdk.dev", "v1", "Barn")


@policy(Barn)
class BarnRules:
    """What the schema would enforce."""

    rules = schema_rules(Barn)


MESSAGES = ("too wide", "never smaller", "at most", "never 3", "self.size()", "no such key")
LAX = unstructured_kind("barns.opsdk.dev/v1", "Barn")
STRICT = unstructured_kind("strict.opsdk.dev/v1", "Barn")


def without_rules(tree: Any) -> Any:
    """Return a definition without rules."""
    if isinstance(tree, dict):
        return {key: without_rules(value) for key, value in tree.items() if key != RULES}
    return [without_rules(each) for each in tree] if isinstance(tree, list) else tree


def definitions() -> list[JsonObject]:
    """Return the kind without rules, and a copy with them in another group."""
    lax, strict = without_rules(crd_for(Barn)), crd_for(Barn)
    strict["metadata"]["name"] = "barns.strict.opsdk.dev"
    strict["spec"]["group"] = "strict.opsdk.dev"
    return [lax, strict]


def some_door(rng: random.Random) -> JsonObject:
    """Return a door that may be too wide."""
    return {"width": rng.randrange(2, 5)}


def some_spec(rng: random.Random) -> JsonObject:
    """Return a spec with small values, of which each may be absent."""
    spec: JsonObject = {
        "size": rng.randrange(1, 5),
        "doors": [some_door(rng) for _ in range(rng.randrange(4))],
        "byName": {name: some_door(rng) for name in "ab" if rng.random() < 0.4},
        "note": rng.choice(["a", "long", None]),
    }
    return {key: value for key, value in spec.items() if rng.random() < 0.8}


async def refusal(client: Client, api_version: str, name: str, spec: JsonObject, *, update: bool) -> set[str]:
    """Write an object, and return the texts of the broken rules."""
    meta = {"name": name, "namespace": "default"}
    obj = Unstructured.from_tree({"apiVersion": api_version, "kind": "Barn", "metadata": meta, "spec": spec})
    try:
        await (client.update(obj) if update else client.create(obj))
    except ApiError as error:
        return {text for text in MESSAGES if text in str(error)}
    return set()


async def test_policy_and_schema_decide_the_same() -> None:
    """Each random object, and each update of it, passes both or none. A policy names its first broken rule only."""
    operator = Operator("barns")
    operator.add_policy(BarnRules)
    rng, refused = random.Random(1), 0
    async with envtest.Environment(crds=definitions()) as env, Cluster(env.config) as cluster:
        await apply_policies(cluster.uncached, operator, field_owner="tests")
        for number in range(30):
            stored = False
            for update in (False, True):
                if update and not stored:
                    continue
                spec = some_spec(rng)
                by_policy = await refusal(cluster.uncached, "barns.opsdk.dev/v1", f"b{number}", spec, update=update)
                by_schema = await refusal(cluster.uncached, "strict.opsdk.dev/v1", f"b{number}", spec, update=update)
                assert bool(by_policy) == bool(by_schema), (spec, by_policy, by_schema)
                assert by_policy <= by_schema
                stored, refused = not by_policy, refused + bool(by_policy)
    assert 10 <= refused <= 50


def test_a_rule_with_old_elements_cannot_be_a_rule_of_a_policy() -> None:
    """The elements of lists have no old value here; the message names the rule and what to write."""

    class Part(Model):
        size: int = 1
        rules = (Rule("self.size >= oldSelf.size"),)

    class WholeSpec(Model):
        parts: list[Part] = field(default_factory=list)

    class Whole(Object[WholeSpec, None]):
        gvk = GroupVersionKind("barns.opsdk.dev", "v1", "Whole")

    globals().update(Part=Part, WholeSpec=WholeSpec)
    with pytest.raises(UsageError, match=r"cannot have the rule 'self\.size >= oldSelf\.size' of spec\.parts"):
        schema_rules(Whole)
    with pytest.raises(UsageError, match="Barn has no class here"):
        schema_rules(LAX)
