"""Custom resources of ten schemas: with the schema nothing is sent twice; without it, at most once after a restart."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from opsdk.apimachinery.codec import decode_tree
from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.gvk import GroupVersionKind
from opsdk.apimachinery.kinds import kind_of
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object, Unstructured, to_dict
from opsdk.apimachinery.quantity import Quantity
from opsdk.children.applier import Applier
from opsdk.children.comparison import compare
from opsdk.children.drift import Drift
from opsdk.children.explanation import Explanation
from opsdk.children.inferred_types import inferred_type
from opsdk.children.ownership import STATUS, applied_by, fields_to_own, managers_of
from opsdk.children.resolver import TypeResolver
from opsdk.client.client import Client
from opsdk.errors import ApiError, UsageError
from opsdk.structured_merge.fieldpath import EMPTY
from opsdk.structured_merge.value import JsonObject
from tests.children.childkit import counted_client, desired, gvk_of_tree, live_tree, prepared, state
from tests.children.mutations import mutated


def read_kinds() -> Iterator[tuple[str, JsonObject, JsonObject]]:
    """The name of each kind, its CustomResourceDefinition and an object."""
    for case in yaml.safe_load((Path(__file__).parent / "custom_kinds.yaml").read_text()):
        name = case["name"]
        plural = f"{name.lower()}s"
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": case["schema"]}}
        if "status" in case["schema"]["properties"]:
            version["subresources"] = {"status": {}}
        spec = {"group": "demo.example.com", "scope": "Namespaced", "versions": [version]}
        crd = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.demo.example.com"},
            "spec": {
                **spec,
                "names": {"kind": name, "plural": plural, "singular": name.lower(), "listKind": f"{name}List"},
            },
        }
        yield name, crd, prepared({"apiVersion": "demo.example.com/v1", "kind": name, **case["object"]})


_BY_NAME = {name: (crd, tree) for name, crd, tree in read_kinds()}
KINDS = pytest.mark.parametrize("name", sorted(_BY_NAME))


_UNKNOWABLE = ("Atoms", "Defaults", "Embedding", "Nulls", "Tables")
"""Kinds whose objects have an empty or atomic value that only the schema explains."""


def test_there_are_ten_kinds() -> None:
    """Each with another feature of structural schemas."""
    assert len(_BY_NAME) == 10


@KINDS
async def test_with_its_definition_a_child_is_applied_once(name: str) -> None:
    """A child with a definition is applied once: neither a second pass nor a restart sends a request."""
    crd, tree = _BY_NAME[name]
    async with counted_client(crds=[crd]) as counted:
        reasons: list[Explanation] = []
        for _ in range(3):
            applier = Applier(counted.client, field_owner="me", crds=[crd], on_write=reasons.append)
            for _ in range(2):
                await applier.apply(desired(tree))
                assert counted.writes == ["Apply"], str(reasons)


@KINDS
async def test_without_a_schema_a_child_is_applied_once_for_each_process_at_most(name: str) -> None:
    """The type is inferred from managedFields. Defaults in place of empty values cost one request after a restart."""
    crd, tree = _BY_NAME[name]
    async with counted_client(crds=[crd]) as counted:
        for expected in (1, 1 if name in _UNKNOWABLE else 0):
            counted.writes.clear()
            applier = Applier(counted.client, field_owner="me")
            for _ in range(3):
                await applier.apply(desired(tree))
            assert len(counted.writes) == expected


class DiskSpec(Model, kw_only=True):
    """A typed spec."""

    size: Quantity
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    replicas: int = 1


class Disk(Object[DiskSpec, None]):
    """A typed custom resource."""

    gvk = GroupVersionKind("demo.example.com", "v1", "Disk")


async def test_a_class_is_a_schema() -> None:
    """A typed child needs no definition; a quantity of a custom resource stays as it is written."""
    async with counted_client(crds=[crd_for(Disk)]) as counted:
        disk = Disk(
            metadata=ObjectMeta(name="a", namespace="default"), spec=DiskSpec(size=Quantity("1024Mi"), replicas=0)
        )
        for _ in range(2):
            live = await Applier(counted.client, field_owner="me").apply(disk)
            assert isinstance(live, Disk)
            assert str(live.spec.size) == "1024Mi"
        assert counted.writes == ["Apply"]


async def test_drift_of_an_unknown_type_is_left_on_request() -> None:
    """The inferred type is enough to leave one field out of the apply."""
    crd, tree = _BY_NAME["Keyed"]
    async with counted_client(crds=[crd]) as counted:
        applier = Applier(counted.client, field_owner="me", drift=Drift.LEAVE)
        await applier.apply(desired(tree))
        foreign = prepared({**tree, "spec": {"ports": [{"port": 80, "note": "theirs"}]}})
        await counted.uncached.apply(desired(foreign), field_owner="other", force=True)
        wish = copy.deepcopy(tree)
        wish["spec"]["ports"][1]["note"] = "mine"
        live = await applier.apply(desired(wish))
        assert [port.get("note") for port in live["spec"]["ports"]] == ["theirs", "mine"]


async def test_an_item_without_keys_is_refused() -> None:
    """An item without keys raises an error that names the object, also if the type is inferred."""
    crd, tree = _BY_NAME["Keyed"]
    async with counted_client(crds=[crd]) as counted:
        applier = Applier(counted.client, field_owner="me")
        explicit = {**tree, "spec": {"ports": [{"port": 80, "protocol": "UDP"}]}}
        await applier.apply(desired(explicit))
        with pytest.raises(UsageError, match=r"^Keyed default/a: associative list with keys"):
            await applier.apply(desired({**tree, "spec": {"ports": [{"port": 80, "protocol": "UDP"}, {"note": "x"}]}}))
        assert counted.writes == ["Apply"]


class PartialSpec(Model, kw_only=True):
    """A part of what the definition declares."""

    size: int = 0


class Partial(Object[PartialSpec, None]):
    """A class that declares less than its definition."""

    gvk = GroupVersionKind("demo.example.com", "v1", "Plain")


async def test_a_class_may_declare_less_than_the_definition() -> None:
    """Fields that only the server knows are applied, and are no reason for further requests."""
    crd, tree = _BY_NAME["Plain"]
    async with counted_client(crds=[crd]) as counted:
        wish = copy.deepcopy(tree)
        wish["spec"] |= {"size": 1, "name": "n", "list": ["a"]}
        for _ in range(2):
            applier = Applier(counted.client, field_owner="me")
            live = await applier.apply(decode_tree(copy.deepcopy(wish), kind_of(Partial)))
            assert isinstance(live, Partial)
            assert to_dict(live)["spec"]["name"] == "n"
        assert counted.writes == ["Apply"]


async def agree(client: Client, tree: JsonObject, crds: list[JsonObject]) -> tuple[bool, bool] | None:
    """Whether the client sees no difference, and whether the apply changed nothing; None if it is rejected."""
    live = await live_tree(client, tree)
    own = applied_by(managers_of(live), "me")
    resolved = TypeResolver(None, crds).resolve(gvk_of_tree(tree), Unstructured)
    field_type = resolved.field_type if resolved else inferred_type(own.fields if own else EMPTY, tree)
    ignored = resolved.ignored if resolved else STATUS
    to_own = fields_to_own(tree, field_type.schema, ignored=ignored)
    result = compare(live, tree, field_type, to_own=to_own, field_owner="me", ignored=ignored)
    try:
        await client.apply(desired(tree), field_owner="me", force=True)
    except ApiError:
        return None
    return not result.differences, state(await live_tree(client, tree)) == state(live)


@KINDS
@pytest.mark.parametrize("known", [True, False])
async def test_the_client_decides_as_the_server(name: str, known: bool) -> None:
    """After random changes no difference means that an apply changes nothing; most differences are changes."""
    crd, tree = _BY_NAME[name]
    crds = [crd] if known else []
    resolved = TypeResolver(None, [crd]).resolve(gvk_of_tree(tree), Unstructured)
    assert resolved is not None
    outcomes: list[tuple[bool, bool]] = []
    for seed in range(2):
        rng = random.Random(f"{name} {seed}")
        async with counted_client(crds=[crd]) as counted:
            client, config = counted.uncached, tree
            await client.apply(desired(tree), field_owner="me", force=True)
            for _ in range(15):
                if rng.random() < 0.3:
                    await apply_as_another(client, mutated(tree, resolved.field_type, rng))
                candidate = mutated(config, resolved.field_type, rng) if rng.random() < 0.6 else config
                outcome = await agree(client, candidate, crds)
                if outcome is not None:
                    config = candidate
                    outcomes.append(outcome)
                    no_difference, unchanged = outcome
                    assert unchanged or not no_difference, f"seed {seed}: {candidate}"
    false_changes = sum(unchanged and not no_difference for no_difference, unchanged in outcomes)
    assert false_changes <= len(outcomes) * (0.05 if known else 0.5)


async def apply_as_another(client: Client, tree: JsonObject) -> Any:
    """Apply as another manager."""
    try:
        return await client.apply(desired(tree), field_owner="other", force=True)
    except ApiError:
        return None
