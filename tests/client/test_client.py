"""The client's methods: which operation each makes, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from client_fakes import FakeExecutor, Site, site

from opsdk.apimachinery.gvk import ObjectKey
from opsdk.apimachinery.kinds import kind_of, metadata_only, unstructured_kind
from opsdk.apimachinery.meta import LabelSelector, ListMeta, ObjectMeta
from opsdk.apimachinery.object import ObjectList, PartialObjectMetadata, Unstructured
from opsdk.apimachinery.selectors import LabelRequirements
from opsdk.client.client import Client, as_key
from opsdk.client.operations import (
    Apply,
    Create,
    Delete,
    DeleteAllOf,
    Get,
    List,
    PatchObject,
    Update,
    Watch,
)
from opsdk.client.options import DeleteOptions, GetOptions, ListOptions, WatchOptions, WriteOptions
from opsdk.client.patch import merge_patch
from opsdk.errors import ConflictError, NotFoundError, UsageError
from opsdk.structured_merge.value import JsonObject

KEY = ObjectKey("ns", "a")
ALL = WriteOptions(dry_run=True, field_owner="me", field_validation="Strict")


def made() -> tuple[Client, FakeExecutor]:
    """A client over a recording executor."""
    executor = FakeExecutor()
    return Client(executor), executor


async def test_read_arguments_reach_the_operation() -> None:
    """Every argument of get, list and watch reaches the operation."""
    client, executor = made()
    await client.get(Site, "ns/a", resource_version="3", uncached=True)
    assert executor.last() == Get(kind=kind_of(Site), key=KEY, options=GetOptions(resource_version="3", uncached=True))
    await client.list(
        metadata_only(Site),
        namespace="ns",
        label_selector={"b": "2", "a": "1"},
        field_selector="x=y",
        limit=3,
        continue_token="t",
        resource_version="9",
        resource_version_match="NotOlderThan",
        uncached=True,
    )
    operation = executor.last()
    assert isinstance(operation, List)
    assert str(operation.options.label_selector) == "a=1,b=2"
    assert str(operation.options.field_selector) == "x=y"
    assert operation.kind == metadata_only(Site)
    o = operation.options
    assert (o.namespace, o.limit, o.continue_token, o.resource_version, o.resource_version_match, o.uncached) == (
        "ns",
        3,
        "t",
        "9",
        "NotOlderThan",
        True,
    )
    async with client.watch(Site, namespace="ns", label_selector="a", resource_version="5", bookmarks=True, timeout=9):
        expected = WatchOptions(
            namespace="ns", label_selector=LabelRequirements.parse("a"), resource_version="5", bookmarks=True, timeout=9
        )
        assert executor.last() == Watch(kind=kind_of(Site), options=expected)


async def test_write_arguments_reach_the_operation() -> None:
    """Every argument of the writing verbs reaches the operation, and the caller's object is returned."""
    client, executor = made()
    obj, patch = site(), merge_patch({})
    options: JsonObject = {"dry_run": True, "field_owner": "me", "field_validation": "Strict"}
    assert await client.create(obj, **options) is obj
    assert executor.last() == Create(obj=obj, options=ALL)
    assert await client.update(obj, **options) is obj
    assert executor.last() == Update(obj=obj, options=ALL)
    assert await client.patch(obj, patch, **options) is obj
    assert executor.last() == PatchObject(obj=obj, patch=patch, options=ALL)
    assert await client.apply(obj, field_owner="me", force=True, dry_run=True) is obj
    assert executor.last() == Apply(obj=obj, options=WriteOptions(dry_run=True, field_owner="me", force=True))


@pytest.mark.parametrize("verb", ["create", "update", "apply", "delete", "status().update", "status().apply"])
async def test_an_unknown_keyword_is_a_usage_error(verb: str) -> None:
    """A wrong keyword is named with those that exist, and nothing is sent."""
    executor = FakeExecutor()
    client: Any = Client(executor)
    target = client.status() if verb.startswith("status") else client
    with pytest.raises(UsageError, match="does not take propagation_policy: it takes dry_run, ") as error:
        await getattr(target, verb.rpartition(".")[2])(site(), propagation_policy="Foreground")
    assert ("propagation," in str(error.value)) is (verb == "delete")
    assert not executor.seen


async def test_delete_accepts_an_object_or_a_kind_with_a_key() -> None:
    """Deletes accept an object or a kind with a key; every option reaches the operation."""
    client, executor = made()
    options: JsonObject = {
        "dry_run": True,
        "grace_period_seconds": 0,
        "propagation": "Foreground",
        "uid": "u",
        "resource_version": "3",
        "missing_ok": True,
    }
    for target in ((site(),), (Site, "ns/a"), (Site, KEY), (unstructured_kind("demo.opsdk.dev/v1", "Site"), KEY)):
        await client.delete(*target, **options)
        assert executor.last() == Delete(gvk=Site.gvk, key=KEY, options=DeleteOptions(**options))
    await client.delete(Site, "a", namespace="ns")
    assert executor.last() == Delete(gvk=Site.gvk, key=KEY)
    with pytest.raises(UsageError, match="a kind and a key"):
        await client.delete(Site)  # type: ignore[call-overload]
    await client.delete_all_of(Site, namespace="ns", label_selector="a", propagation="Orphan")
    assert executor.last() == DeleteAllOf(
        gvk=Site.gvk,
        select=ListOptions(namespace="ns", label_selector=LabelRequirements.parse("a")),
        options=DeleteOptions(propagation="Orphan"),
    )


@pytest.mark.behaviour(22)
async def test_subresource_verbs_name_their_subresource() -> None:
    """Each verb names its subresource; a body without name gets the parent's name and namespace."""
    client, executor = made()
    obj, patch = site(), merge_patch({})
    scale = client.subresource("scale")

    def body() -> Unstructured:
        return Unstructured("autoscaling/v1", "Scale")

    await scale.get(obj, unstructured_kind("autoscaling/v1", "Scale"))
    assert (executor.last().subresource, executor.last().key, executor.last().kind.gvk) == ("scale", KEY, Site.gvk)
    assert executor.last().options.uncached
    for call in (
        lambda b: scale.create(obj, b),
        lambda b: scale.update(obj, b),
        lambda b: scale.patch(obj, patch, b),
        lambda b: scale.apply(obj, b, field_owner="me"),
    ):
        body_given = body()
        assert await call(body_given) is body_given
        assert (executor.last().subresource, executor.last().obj, executor.last().body) == ("scale", obj, body_given)
        assert (body_given.metadata.name, body_given.metadata.namespace) == ("a", "ns")
    await client.status().update(obj, dry_run=True, field_owner="me", field_validation="Strict")
    assert executor.last() == Update(obj=obj, subresource="status", options=ALL)
    await client.status().patch(obj, patch)
    assert executor.last() == PatchObject(obj=obj, patch=patch, subresource="status")
    await client.status().apply(obj, field_owner="me", force=True)
    assert executor.last() == Apply(obj=obj, subresource="status", options=WriteOptions(field_owner="me", force=True))


async def test_a_failed_write_leaves_the_body_unchanged() -> None:
    """The name and namespace that were filled in are removed again."""

    def refuse(_: Any) -> Any:
        raise ConflictError("no")

    scale = Client(FakeExecutor(refuse)).subresource("scale")
    body = Unstructured("autoscaling/v1", "Scale")
    for call in (lambda: scale.create(site(), body), lambda: scale.update(site(), body)):
        with pytest.raises(ConflictError):
            await call()
        assert (body.metadata.name, body.metadata.namespace) == ("", "")


@pytest.mark.behaviour(14)
async def test_metadata_only_objects_cannot_be_created_or_updated() -> None:
    """Create and update raise these errors before anything is sent; patch and delete work."""
    client, executor = made()
    partial = PartialObjectMetadata("demo.opsdk.dev/v1", "Site", ObjectMeta(name="a", namespace="ns"))
    with pytest.raises(UsageError, match=r"^cannot create using only metadata$"):
        await client.create(partial)
    with pytest.raises(UsageError, match=r"^cannot update using only metadata -- did you mean to patch\?$"):
        await client.update(partial)
    with pytest.raises(UsageError, match="cannot update using only metadata"):
        await client.status().update(partial)
    with pytest.raises(UsageError, match="cannot create using only metadata"):
        await client.subresource("eviction").create(site(), partial)
    with pytest.raises(UsageError, match="using only metadata"):
        await client.subresource("scale").get(site(), metadata_only(Site))
    assert executor.seen == []
    await client.patch(partial, merge_patch({}))
    await client.status().patch(partial, merge_patch({}))
    await client.delete(partial)
    assert len(executor.seen) == 3


async def test_missing_objects() -> None:
    """`get` raises, `get_or_none` returns None; both raise other errors."""

    def missing(_: Any) -> Any:
        raise NotFoundError("gone")

    client = Client(FakeExecutor(missing))
    with pytest.raises(NotFoundError):
        await client.get(Site, KEY)
    assert await client.get_or_none(Site, KEY) is None

    def refused(_: Any) -> Any:
        raise ConflictError("x")

    with pytest.raises(ConflictError):
        await Client(FakeExecutor(refused)).get_or_none(Site, KEY)


async def test_list_pages_follows_continue_tokens() -> None:
    """A paged list sends the previous page's continue token until a page has none."""
    questions: list[tuple[int | None, str, bool]] = []

    def pages(operation: Any) -> ObjectList[Site]:
        o = operation.options
        questions.append((o.limit, o.continue_token, o.uncached))
        page = int(o.continue_token or 0)
        token = str(page + 1) if page < 2 else ""
        return ObjectList([site(f"{page}-{n}") for n in range(2)], ListMeta(continue_token=token))

    client = Client(FakeExecutor(pages))
    names = [obj.metadata.name async for obj in client.list_pages(Site, page_size=2)]
    assert names == ["0-0", "0-1", "1-0", "1-1", "2-0", "2-1"]
    assert questions == [(2, "", True), (2, "1", True), (2, "2", True)]


def test_an_object_key_has_three_forms() -> None:
    """A key is an ObjectKey, ``namespace/name``, or a name with a namespace; contradictions are errors."""
    assert as_key(KEY) == as_key("ns/a") == as_key("a", "ns") == as_key("ns/a", "ns") == as_key(KEY, "ns") == KEY
    assert as_key(ObjectKey("", "a"), "ns") == KEY
    for key in ("ns/a", KEY):
        with pytest.raises(UsageError, match="disagree"):
            as_key(key, "other")
    for wrong in ("", "/a/b", "a/b/c", "a/"):
        with pytest.raises(UsageError, match="not an object key"):
            as_key(wrong)


async def test_selectors_of_every_accepted_type() -> None:
    """Text, a mapping, the form inside objects, a parsed one; None selects everything."""
    client, executor = made()
    for labels in ("a=b", {"a": "b"}, LabelSelector(match_labels={"a": "b"}), LabelRequirements.parse("a=b")):
        await client.list(Site, label_selector=labels)
        assert str(executor.last().options.label_selector) == "a=b"
    await client.list(Site)
    assert executor.last().options.label_selector == LabelRequirements()
    both = LabelRequirements.parse("a=b") & LabelRequirements.equal({"c": "d"})
    await client.list(Site, label_selector=both)
    assert str(executor.last().options.label_selector) == "a=b,c=d"


def test_operations_have_kind_and_namespace() -> None:
    """Kind and namespace of each operation, for wrappers."""
    obj = site()
    about = [
        Get(kind=kind_of(Site), key=KEY),
        List(kind=kind_of(Site), options=ListOptions(namespace="ns")),
        Watch(kind=kind_of(Site), options=WatchOptions(namespace="ns")),
        Create(obj=obj),
        Update(obj=obj),
        PatchObject(obj=obj, patch=merge_patch({})),
        Apply(obj=obj),
        Delete(gvk=Site.gvk, key=KEY),
        DeleteAllOf(gvk=Site.gvk, select=ListOptions(namespace="ns")),
    ]
    assert {o.gvk for o in about} == {Site.gvk}
    assert {o.namespace for o in about} == {"ns"}
