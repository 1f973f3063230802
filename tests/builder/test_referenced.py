"""Referenced objects: metadata of all, whole objects of those that something references."""

from __future__ import annotations

import asyncio
import gc
import random

import pytest
from boxes import Box, box
from hypothesis import given
from hypothesis import strategies as st

import envtest
from opsdk import Client, Cluster, Context, ObjectKey, ObjectMeta, Operator, UsageError, crd_for
from opsdk.api.core.v1 import Secret
from opsdk.apimachinery.kinds import metadata_only
from opsdk.builder.arguments import references
from opsdk.client.patch import merge_patch
from opsdk.event.references import ReferenceTable, references_of
from opsdk.testing.running import running

KEYS = [ObjectKey("default", name) for name in "abcd"]


# ------------------------------------------------------------------ the table
@given(st.lists(st.tuples(st.sampled_from(KEYS), st.lists(st.sampled_from(KEYS), max_size=3)), max_size=20))
def test_the_table_is_the_inverse_of_the_references(changes: list[tuple[ObjectKey, list[ObjectKey]]]) -> None:
    """After any changes, the users of a key are those whose last references contain it; unused keys are reported."""
    table, model = ReferenceTable(), dict[ObjectKey, set[ObjectKey]]()
    for user, keys in changes:
        before = set().union(*model.values())
        model[user] = set(keys)
        after = set().union(*model.values())
        assert table.replace(user, keys) == before - after
        assert {key for key in KEYS if key in table} == after
        for key in KEYS:
            assert set(table.users(key)) == {one for one, its in model.items() if key in its}
    for user in model:
        table.replace(user, ())
    assert not len(table)
    assert not vars(table)["_references"]


@pytest.mark.parametrize(
    ("result", "keys"),
    [
        (None, []),
        ("", []),
        ("a", ["default/a"]),
        ("shop/a", ["shop/a"]),
        (ObjectKey("shop", "a"), ["shop/a"]),
        (["a", None, "shop/b"], ["default/a", "shop/b"]),
    ],
)
def test_a_reference_is_a_name_or_a_key(result: object, keys: list[str]) -> None:
    """A name is in the namespace of the object that references it."""
    assert [str(key) for key in references_of(box(), lambda _: result)] == keys  # type: ignore[arg-type, return-value]


# ------------------------------------------------------------------ with a server
class Boxes:
    """An operator whose boxes reference a Secret by the label ``secret``."""

    def __init__(self) -> None:
        self.operator = Operator("boxes")
        self.read: dict[str, bytes] = {}
        self.runs: list[str] = []

        @self.operator.reconciler(
            Box, watches=[references(Secret, by=lambda b: (b.metadata.labels or {}).get("secret"))]
        )
        async def reconcile(obj: Box, ctx: Context) -> None:
            name = obj.metadata.name
            self.runs.append(name)
            if reference := (obj.metadata.labels or {}).get("secret"):
                secret = await ctx.client.get_or_none(Secret, f"default/{reference}")
                self.read[name] = (secret.data or {}).get("p", b"") if secret is not None else b""

    def requests(self) -> int:
        """Return how many Secrets the operator has read from the server."""
        records = self.operator.journal.find()
        return sum(request.verb == "get" for record in records for request in record.requests)


async def put(client: Client, name: str, text: str) -> None:
    """Create or change a Secret."""
    secret = Secret(metadata=ObjectMeta(name=name, namespace="default"), string_data={"p": text})
    await client.apply(secret, field_owner="test", force=True)


def server() -> envtest.Environment:
    """Return a server with the kind Box."""
    return envtest.Environment(crds=[crd_for(Box)])


async def test_a_referenced_object_is_read_once_for_each_of_its_states() -> None:
    """Each state of a referenced object is read once; other Secrets cost no request."""
    boxes = Boxes()
    async with server() as env, Cluster(env.config) as outside, running(boxes.operator, env, definitions=False):
        client = outside.uncached
        await put(client, "s", "one")
        for number in range(5):
            await put(client, f"other-{number}", "x")
        for name in "ab":
            await client.create(box(name, labels={"secret": "s"}))
        await asyncio.sleep(5)
        assert boxes.read == {"a": b"one", "b": b"one"}
        assert boxes.requests() <= 2
        for name in "ab":
            await client.patch(box(name), merge_patch({"spec": {"size": 5}}))
        await asyncio.sleep(5)
        assert boxes.requests() <= 2
        before, runs = boxes.requests(), boxes.runs.count("a")
        await put(client, "s", "two")
        await asyncio.sleep(5)
        assert boxes.read == {"a": b"two", "b": b"two"}
        assert boxes.requests() == before + 1
        assert boxes.runs.count("a") == runs + 1
        await put(client, "other-1", "y")
        await asyncio.sleep(5)
        assert boxes.runs.count("a") == runs + 1


async def test_the_informer_lives_as_long_as_a_reference() -> None:
    """Nothing is watched without a reference; a minute after the last one, the watch and whole objects are gone."""
    boxes = Boxes()
    async with server() as env, Cluster(env.config) as outside, running(boxes.operator, env, definitions=False):
        client, cache = outside.uncached, boxes.operator.cluster.cache
        await put(client, "s", "one")
        await client.create(box("plain"))
        await asyncio.sleep(5)
        assert [kind.gvk.kind for kind in cache.kinds()] == ["Box"]
        await client.create(box("a", labels={"secret": "s"}))
        await asyncio.sleep(5)
        (secrets,) = [kind for kind in cache.kinds() if kind.gvk.kind == "Secret"]
        assert secrets.metadata_only
        assert len(boxes.operator.cluster.referenced) == 1
        await client.delete(box("a"))
        await asyncio.sleep(5)
        assert len(boxes.operator.cluster.referenced) == 0
        await asyncio.sleep(120)
        assert [kind.gvk.kind for kind in cache.kinds()] == ["Box"]
        await client.create(box("b", labels={"secret": "s"}))
        await asyncio.sleep(5)
        assert boxes.read["b"] == b"one"
        await put(client, "s", "two")
        await asyncio.sleep(5)
        assert boxes.read["b"] == b"two"


async def test_no_whole_object_without_a_reference_is_in_memory() -> None:
    """The bytes of other Secrets, and those of a referenced one after its reference went, are in no object."""
    boxes = Boxes()
    async with server() as env, Cluster(env.config) as outside, running(boxes.operator, env, definitions=False):
        client = outside.uncached
        await put(client, "s", "used")
        await put(client, "t", "unused")
        await client.create(box("a", labels={"secret": "s"}))
        await asyncio.sleep(5)
        whole = vars(boxes.operator.cluster.referenced)["_objects"]
        assert [str(key) for _, key in whole] == ["default/s"]
        metadata = next(kind for kind in boxes.operator.cluster.cache.kinds() if kind.gvk.kind == "Secret")
        for informer in metadata.informers.values():
            assert len(informer.store) >= 2
            assert not any(b'"data"' in entry.data for entry in informer.store.entries())
        await client.patch(box("a"), merge_patch({"metadata": {"labels": {"secret": None}}}))
        await asyncio.sleep(5)
        gc.collect()
        assert not whole


@pytest.mark.parametrize("seed", range(10))
async def test_the_last_read_is_the_newest_state(seed: int) -> None:
    """After any changes of Secrets and references, each box has read what its Secret holds."""
    boxes, rng = Boxes(), random.Random(seed)
    async with server() as env, Cluster(env.config) as outside, running(boxes.operator, env, definitions=False):
        client = outside.uncached
        for name in "ab":
            await client.create(box(name, labels={"secret": "s1"}))
        for number in range(60):
            name = f"s{rng.randrange(3)}"
            match rng.randrange(4):
                case 0 | 1:
                    await put(client, name, str(number))
                case 2:
                    meta = ObjectMeta(name=name, namespace="default")
                    await client.delete(Secret(metadata=meta), missing_ok=True)
                case 3:
                    labels = {"metadata": {"labels": {"secret": name}}}
                    await client.patch(box(rng.choice("ab")), merge_patch(labels))
            await asyncio.sleep(rng.choice([0, 0.01, 1]))
        await asyncio.sleep(5)
        for obj in await client.list(Box):
            reference = (obj.metadata.labels or {})["secret"]
            secret = await client.get_or_none(Secret, f"default/{reference}")
            expected = (secret.data or {}).get("p", b"") if secret is not None else b""
            assert boxes.read[obj.metadata.name] == expected


def test_wrong_references_are_refused() -> None:
    """The error has the place of the declaration, and says what to write."""
    operator = Operator("boxes")
    for wrong, message in [
        (references(Secret, by="name"), "by of references"),  # type: ignore[arg-type]
        (references(metadata_only(Secret), by=str), r"references got metadata_only\(...\)"),
        (references([Secret], by=str), r"references\(...\) takes one kind"),  # type: ignore[arg-type]
    ]:
        with pytest.raises(UsageError, match=rf"test_referenced.py:\d+: {message}"):
            operator.reconciler(Box, watches=[wrong])
    with pytest.raises(UsageError, match=r"by=\.\.\. returned 3"):
        references_of(box(), lambda _: [3])  # type: ignore[list-item]
