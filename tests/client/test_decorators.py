"""Clients around clients: each applies to every verb and to subresources alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from client_fakes import FakeExecutor, Site, site

from opsdk.api.core.v1 import Node
from opsdk.apimachinery.meta import ObjectMeta
from opsdk.apimachinery.object import Unstructured
from opsdk.client.client import Client
from opsdk.client.decorators.dry_run import dry_run
from opsdk.client.decorators.field_owner import field_owner, field_validation
from opsdk.client.decorators.intercept import intercept
from opsdk.client.decorators.namespaced import namespaced
from opsdk.client.operations import Delete, Operation
from opsdk.client.patch import merge_patch
from opsdk.errors import ConflictError, ForbiddenError, UsageError

PATCH = merge_patch({})
Call = Callable[[Client, Site], Awaitable[Any]]


def body() -> Unstructured:
    """The object of some subresource."""
    return Unstructured("x/v1", "Body")


WRITES: dict[str, Call] = {
    "create": lambda c, o: c.create(o),
    "update": lambda c, o: c.update(o),
    "patch": lambda c, o: c.patch(o, PATCH),
    "apply": lambda c, o: c.apply(o, field_owner=""),
    "status.update": lambda c, o: c.status().update(o),
    "status.patch": lambda c, o: c.status().patch(o, PATCH),
    "status.apply": lambda c, o: c.status().apply(o),
    "sub.create": lambda c, o: c.subresource("bake").create(o, body()),
    "sub.update": lambda c, o: c.subresource("bake").update(o, body()),
}
DELETES: dict[str, Call] = {
    "delete": lambda c, o: c.delete(o),
    "delete_key": lambda c, o: c.delete(Site, o.metadata.name, namespace=o.metadata.namespace),
    "delete_all_of": lambda c, o: c.delete_all_of(Site, namespace=o.metadata.namespace),
}


async def _watch(client: Client, obj: Site) -> None:
    async with client.watch(Site, namespace=obj.metadata.namespace):
        pass


READS: dict[str, Call] = {
    "get": lambda c, o: c.get(Site, o.metadata.name, namespace=o.metadata.namespace),
    "list": lambda c, o: c.list(Site, namespace=o.metadata.namespace),
    "sub.get": lambda c, o: c.subresource("bake").get(o, Site),
    "watch": _watch,
}


def every(calls: dict[str, Call]) -> Any:
    """One test for each call."""
    return pytest.mark.parametrize("call", calls.values(), ids=calls.keys())


@pytest.mark.behaviour(16)
@every(WRITES | DELETES)
async def test_a_dry_run_marks_every_write(call: Call) -> None:
    """A dry-run client sets dryRun on every write."""
    executor = FakeExecutor()
    await call(dry_run(Client(executor)), site())
    assert executor.last().options.dry_run


@every(READS)
async def test_a_dry_run_leaves_reads_alone(call: Call) -> None:
    """A dry-run client passes reads on unchanged."""
    plain, wrapped = FakeExecutor(), FakeExecutor()
    await call(Client(plain), site())
    await call(dry_run(Client(wrapped)), site())
    assert wrapped.last() == plain.last()


@pytest.mark.behaviour(17)
@every(WRITES)
async def test_the_field_owner_is_set_where_none_is(call: Call) -> None:
    """A client's field owner applies to every write; the owner of a call wins."""
    executor = FakeExecutor()
    await call(field_owner(Client(executor), "me"), site())
    assert executor.last().options.field_owner == "me"
    await field_owner(Client(executor), "me").update(site(), field_owner="other")
    assert executor.last().options.field_owner == "other"


@every(WRITES)
async def test_the_field_validation_is_set_where_none_is(call: Call) -> None:
    """A client's field validation applies to every write but apply, which is strict; that of a call wins."""
    executor = FakeExecutor()
    await call(field_validation(Client(executor), "Strict"), site())
    applies = type(executor.last()).__name__ == "Apply"
    assert executor.last().options.field_validation == (None if applies else "Strict")
    await field_validation(Client(executor), "Strict").update(site(), field_validation="Ignore")
    assert executor.last().options.field_validation == "Ignore"


def _namespace(operation: Any) -> str:
    for holder in (getattr(operation, "key", None), getattr(operation, "select", None)):
        if holder is not None:
            return str(holder.namespace)
    obj = getattr(operation, "obj", None)
    return str(obj.metadata.namespace if obj is not None else operation.options.namespace)


@pytest.mark.behaviour(19)
@pytest.mark.behaviour(24, better="One constructor creates every client, so each option applies to watches.")
@every(WRITES | DELETES | READS)
async def test_a_namespaced_client_fills_in_its_namespace(call: Call) -> None:
    """A namespaced client adds its namespace to every verb; naming it explicitly is allowed."""
    for own_namespace in ("", "home"):
        executor = FakeExecutor()
        await call(namespaced(Client(executor), "home"), site(namespace=own_namespace))
        assert _namespace(executor.last()) == "home"
        if (given_body := getattr(executor.last(), "body", None)) is not None:
            assert given_body.metadata.namespace == "home"


@pytest.mark.behaviour(19)
@every(WRITES | DELETES | READS)
async def test_a_namespaced_client_refuses_other_namespaces(call: Call) -> None:
    """The error has this text, and nothing is sent."""
    executor = FakeExecutor()
    words = "namespace away of the Site does not match the namespace home on the client"
    with pytest.raises(UsageError, match=words):
        await call(namespaced(Client(executor), "home"), site(namespace="away"))
    assert executor.seen == []


async def test_a_body_cannot_leave_the_namespace() -> None:
    """The body of a subresource is checked like its parent."""
    client = namespaced(Client(FakeExecutor()), "home")
    foreign = Unstructured("x/v1", "Body", ObjectMeta(namespace="away"))
    with pytest.raises(UsageError, match="does not match"):
        await client.subresource("bake").create(site(namespace="home"), foreign)


@pytest.mark.behaviour(19)
async def test_a_namespaced_client_leaves_cluster_scoped_kinds_alone() -> None:
    """Cluster-scoped kinds have no namespace to fill in."""
    executor = FakeExecutor()
    client = namespaced(Client(executor), "home")
    await client.create(Node(metadata=ObjectMeta(name="n")))
    assert executor.last().obj.metadata.namespace == ""
    await client.get(Node, "n")
    assert executor.last().key.namespace == ""
    await client.list(Node)
    assert executor.last().options.namespace == ""
    with pytest.raises(UsageError, match="needs a namespace"):
        namespaced(client, "")


@every(WRITES)
async def test_a_failed_write_leaves_the_object_unchanged(call: Call) -> None:
    """The namespace that was filled in is removed again."""

    def refuse(_: Operation) -> Any:
        raise ConflictError("no")

    obj = site(namespace="")
    with pytest.raises(ConflictError):
        await call(namespaced(Client(FakeExecutor(refuse)), "home"), obj)
    assert obj == site(namespace="")


async def test_wrappers_nest() -> None:
    """Each adds its own, in any order; the innermost executor sees all."""
    for order in ((dry_run, _owned, _home), (_home, _owned, dry_run)):
        executor = FakeExecutor()
        client = Client(executor)
        for wrap in order:
            client = wrap(client)
        await client.create(site(namespace=""))
        o = executor.last()
        assert (o.options.dry_run, o.options.field_owner, o.obj.metadata.namespace) == (True, "me", "home")
        assert client.scheme is executor.scheme
        assert client.mapper is executor.mapper


def _owned(client: Client) -> Client:
    return field_owner(client, "me")


def _home(client: Client) -> Client:
    return namespaced(client, "home")


@pytest.mark.behaviour(144)
@every(WRITES | DELETES | {k: v for k, v in READS.items() if k != "watch"})
async def test_an_interceptor_sees_every_operation(call: Call) -> None:
    """An interceptor gets every operation, may pass it on, and its return value is the result."""
    executor = FakeExecutor()
    passed: list[Operation] = []

    async def watch_it(operation: Operation, proceed: Any) -> Any:
        passed.append(operation)
        return await proceed(operation)

    await call(intercept(Client(executor), watch_it), site())
    assert passed == executor.seen


@pytest.mark.behaviour(144)
async def test_an_interceptor_may_reject_respond_or_change() -> None:
    """An exception rejects the operation, a return value is the result, and another operation may be passed on."""
    executor = FakeExecutor()

    async def rules(operation: Operation, proceed: Any) -> Any:
        if isinstance(operation, Delete):
            raise ForbiddenError("not in this test")
        return "answer"

    client = intercept(Client(executor), rules)
    with pytest.raises(ForbiddenError):
        await client.delete(site())
    assert await client.get(Site, "ns/a") == "answer"  # type: ignore[comparison-overlap]
    assert executor.seen == []


@pytest.mark.behaviour(144)
async def test_watches_are_intercepted_by_their_own_function() -> None:
    """Without a watch function, an intercepted client passes watches unchanged."""
    executor = FakeExecutor()
    questions: list[Any] = []

    def watch(operation: Any, proceed: Any) -> Any:
        questions.append(operation)
        return proceed(operation)

    await _watch(intercept(Client(executor)), site())
    await _watch(intercept(Client(executor), watch=watch), site())
    assert (len(questions), len(executor.seen)) == (1, 2)
