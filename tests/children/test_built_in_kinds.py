"""Every built-in kind: an object in odd spellings is applied once, whatever the server makes of it."""

from __future__ import annotations

import copy
import random

import pytest

from opsdk.apimachinery.object import Unstructured, convert
from opsdk.children.applier import Applier
from opsdk.children.comparison import compare
from opsdk.children.desired import with_encoded_strings
from opsdk.children.explanation import Explanation
from opsdk.children.field_types import built_in_type
from opsdk.children.kinds import built_in_kinds
from opsdk.children.ownership import fields_to_own
from opsdk.children.resolver import TypeResolver
from opsdk.client.client import Client
from opsdk.client.patch import merge_patch
from opsdk.errors import ApiError, PatchError
from opsdk.structured_merge.typed import check_typed
from opsdk.structured_merge.value import JsonObject
from tests.children.childkit import (
    desired,
    gvk_of_tree,
    live_tree,
    samples,
    serving,
    signing_request,
    state,
)
from tests.children.mutations import EMPTY, changed, left_out, mutated

_BY_NAME = {str(gvk_of_tree(tree)): tree for tree in samples()}
KINDS = pytest.mark.parametrize("name", sorted(_BY_NAME))


def test_there_is_a_sample_of_every_kind() -> None:
    """The laws below hold for all kinds that can be applied."""
    assert {gvk_of_tree(tree) for tree in _BY_NAME.values()} == set(built_in_kinds())


@KINDS
async def test_a_child_is_applied_once(name: str) -> None:
    """The second pass sends nothing, and after a restart neither the first one does."""
    tree = _BY_NAME[name]
    async with serving(tree) as counted:
        applier = Applier(counted.client, field_owner="me")
        await applier.apply(desired(tree))
        assert counted.writes == ["Apply"]
        reasons: list[Explanation] = []
        for again in (applier, Applier(counted.client, field_owner="me", on_write=reasons.append)):
            await again.apply(desired(tree))
            assert counted.writes == ["Apply"], str(reasons)


async def agree(client: Client, tree: JsonObject) -> bool | None:
    """Whether client and server agree that an apply changes something; None if the server rejects the apply.

    Raises:
        AssertionError: the client sees no difference, and the apply changed the object.
    """
    resolved = TypeResolver().resolve(gvk_of_tree(tree), Unstructured)
    assert resolved is not None
    live = await live_tree(client, tree)
    try:
        check_typed(tree, resolved.field_type.schema)
        tree = with_encoded_strings(tree)
        to_own = fields_to_own(tree, resolved.field_type.schema, ignored=resolved.ignored)
    except PatchError:
        return None
    result = compare(live, tree, resolved.field_type, to_own=to_own, field_owner="me", ignored=resolved.ignored)
    try:
        await client.apply(desired(tree), field_owner="me", force=True)
    except ApiError:
        return None
    unchanged = state(await live_tree(client, tree)) == state(live)
    if not live["metadata"].get("managedFields"):
        return True  # the first apply to an object without owners records them, whatever it sets
    assert unchanged or result.differences, f"the apply of {tree} changed {live}"
    return unchanged == (not result.differences)


@KINDS
async def test_a_typed_child_is_applied_once(name: str) -> None:
    """The same for objects of the kinds' classes, which leave out most empty values."""
    tree = _BY_NAME[name]
    if tree["kind"] == "CertificateSigningRequest":
        tree = changed(tree, ("spec", "request"), signing_request().replace("\n", ""))
    async with serving(tree) as counted:
        kind = counted.client.scheme.type_for(gvk_of_tree(tree))
        for _ in range(2):
            live = await Applier(counted.client, field_owner="me").apply(convert(copy.deepcopy(tree), kind))
            assert isinstance(live, kind)
        assert counted.writes == ["Apply"]


@pytest.mark.slow
@KINDS
async def test_each_empty_value_is_compared_as_the_server_does(name: str) -> None:
    """An empty value in any field hides no change, and few of them cost a request after a restart."""
    tree = _BY_NAME[name]
    field_type = built_in_type(gvk_of_tree(tree))
    assert field_type is not None
    async with serving(tree) as counted:
        client = counted.uncached
        await client.apply(desired(tree), field_owner="me", force=True)
        outcomes: list[bool | None] = []
        free = left_out(tree, field_type)
        for place, part_type in random.Random(name).sample(free, min(len(free), 20)):
            for value in EMPTY.get(part_type.form, (None,)):
                config = changed(tree, place, value)
                await agree(client, config)
                outcomes.append(await agree(client, config))
        assert sum(outcome is False for outcome in outcomes) <= max(3, len(outcomes) * 0.1)


@KINDS
async def test_the_client_decides_as_the_server(name: str) -> None:
    """After random changes of the desired object and by others, no difference means that an apply changes nothing."""
    outcomes: list[bool] = []
    for seed in range(2):
        outcomes += await random_rounds(_BY_NAME[name], random.Random(f"{name} {seed}"), rounds=8)
    assert sum(not outcome for outcome in outcomes) <= max(3, len(outcomes) * 0.2)


@pytest.mark.slow
@pytest.mark.deep
@KINDS
async def test_the_client_decides_as_the_server_for_long(name: str) -> None:
    """The same for many more changes."""
    outcomes: list[bool] = []
    for seed in range(100, 105):
        outcomes += await random_rounds(_BY_NAME[name], random.Random(f"{name} {seed}"), rounds=10)
    assert sum(not outcome for outcome in outcomes) <= len(outcomes) * 0.1


async def random_rounds(tree: JsonObject, rng: random.Random, *, rounds: int) -> list[bool]:
    """Whether client and server agreed, for each apply that the server accepted."""
    field_type = built_in_type(gvk_of_tree(tree))
    assert field_type is not None
    outcomes: list[bool] = []
    async with serving(tree) as counted:
        client = counted.uncached
        await client.apply(desired(tree), field_owner="me", force=True)
        config = tree
        for _ in range(rounds):
            if rng.random() < 0.3:
                await change_as_another(client, mutated(tree, field_type, rng), rng)
            candidate = mutated(config, field_type, rng) if rng.random() < 0.6 else config
            outcome = await agree(client, candidate)
            if outcome is not None:
                config = candidate
                outcomes.append(outcome)
    return outcomes


async def change_as_another(client: Client, tree: JsonObject, rng: random.Random) -> None:
    """Write the object as another manager: by an apply, or by an update."""
    try:
        if rng.random() < 0.5:
            await client.apply(desired(tree), field_owner="other", force=True)
        else:
            await client.patch(desired(tree), merge_patch(tree), field_owner="other")
    except ApiError:
        return
