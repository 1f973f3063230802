"""Typed defaulters and validators, called without a server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta
from webhook_reviews import Site, site_tree

from envtest import Environment
from opsdk.aio.blocking import blocking
from opsdk.api.core.v1 import Namespace
from opsdk.apimachinery.crd import crd_for
from opsdk.apimachinery.gvk import GroupVersionKind, GroupVersionResource
from opsdk.apimachinery.kinds import unstructured_kind
from opsdk.apimachinery.model import Model
from opsdk.apimachinery.object import Object, Unstructured
from opsdk.apimachinery.patch.json_patch import apply_json_patch
from opsdk.client.blocking import BlockingClient
from opsdk.cluster.cluster import Cluster
from opsdk.errors import AdmissionDeniedError, ConflictError, InvalidError, UsageError
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.definitions import install_definitions
from opsdk.webhook.admission import AdmissionRequest, AdmissionResponse, UserInfo, allowed, denied
from opsdk.webhook.handlers import (
    AdmissionContext,
    DefaulterHandler,
    MultiMutatingHandler,
    MultiValidatingHandler,
    ValidatorHandler,
)


def request(operation: str = "CREATE", **fields: Any) -> AdmissionRequest:
    """A request about a site."""
    resource = GroupVersionResource("demo.opsdk.dev", "v1", "sites")
    return AdmissionRequest(
        operation=operation, resource=resource, name="a", user_info=UserInfo(username="ann"), **fields
    )


def set_replicas(site: Site, ctx: AdmissionContext) -> None:
    """Set a field that has no value."""
    if site.spec.replicas is None:
        site.spec.replicas = 1


@pytest.mark.behaviour(124)
async def test_a_default_is_a_minimal_patch() -> None:
    """A default is a patch of the new field only; unknown fields stay."""
    tree = site_tree(newField={"a": 1})
    tree["metadata"]["managedFields"] = [{"manager": "kubectl", "fieldsV1": {"f:x": {}}}]
    response = await DefaulterHandler(Site, set_replicas).handle(request(object=tree))
    assert list(response.patches) == [{"op": "add", "path": "/spec/replicas", "value": 1}]


@pytest.mark.behaviour(124)
async def test_without_a_change_there_is_no_patch() -> None:
    """An object that is complete already is left alone, whatever its form."""
    for tree in (site_tree(replicas=2), site_tree(replicas=2, tags=None, newField=[]), {"spec": {"replicas": 3}}):
        response = await DefaulterHandler(Site, set_replicas).handle(request(object=tree))
        assert (response.allowed, response.patches) == (True, ())


async def test_the_patch_fits_the_objects_of_the_request() -> None:
    """The patch applies to the request's object even if it lacks fields that the class always has."""

    def label(site: Site, ctx: AdmissionContext) -> None:
        site.metadata.labels["a"] = "b"

    tree: JsonObject = {"spec": {}}
    response = await DefaulterHandler(Site, label).handle(request(object=tree))
    assert apply_json_patch(tree, response.patches)["metadata"] == {"labels": {"a": "b"}}


@pytest.mark.behaviour(124)
async def test_a_removed_field_is_a_remove_operation() -> None:
    """A defaulter that clears a known field removes it."""

    async def clear(site: Site, ctx: AdmissionContext) -> None:
        site.spec.replicas = None
        site.metadata.labels.pop("old")

    tree = site_tree(replicas=2, newField=1)
    tree["metadata"]["labels"] = {"old": "1", "new": "2"}
    response = await DefaulterHandler(Site, clear).handle(request("UPDATE", object=tree))
    assert {(p["op"], p["path"]) for p in response.patches} == {
        ("remove", "/spec/replicas"),
        ("remove", "/metadata/labels/old"),
    }


@pytest.mark.behaviour(124)
@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
async def test_a_defaulter_does_not_see_deletions(operation: str) -> None:
    """A defaulter allows DELETE and CONNECT without a call."""

    def fail(site: Site, ctx: AdmissionContext) -> None:
        raise AssertionError

    assert (await DefaulterHandler(Site, fail).handle(request(operation, old_object=site_tree()))).allowed


async def test_a_defaulter_may_be_an_object_and_may_deny() -> None:
    """A defaulter object may deny with code, reason and warnings."""

    class Refusing:
        async def default(self, site: Site, ctx: AdmissionContext) -> None:
            ctx.warn("careful")
            raise AdmissionDeniedError("not today")

    response = await DefaulterHandler(Site, Refusing()).handle(request(object=site_tree()))
    assert (response.allowed, response.code, response.message) == (False, 403, "not today")
    assert response.warnings == ("careful",)


async def test_objects_without_a_class_have_defaults_too() -> None:
    """An unstructured object is changed by its tree; the request's object stays as it was."""

    def label(obj: Unstructured, ctx: AdmissionContext) -> None:
        obj["spec"]["deep"]["list"].append(2)

    tree = site_tree(deep={"list": [1]})
    response = await DefaulterHandler(unstructured_kind("demo.opsdk.dev/v1", "Site"), label).handle(
        request(object=tree)
    )
    assert list(response.patches) == [{"op": "add", "path": "/spec/deep/list/-", "value": 2}]
    assert tree["spec"]["deep"]["list"] == [1]


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "image": st.sampled_from(["", "a", "b"]),
            "replicas": st.none() | st.integers(0, 3),
            "tags": st.none() | st.lists(st.sampled_from("xyz"), max_size=3),
            "future": st.integers() | st.dictionaries(st.sampled_from("pq"), st.booleans()),
        },
    ),
    st.integers(0, 3) | st.none(),
    st.lists(st.sampled_from("xyz"), max_size=3),
)
def test_the_patched_object_is_what_the_defaulter_made(spec: JsonObject, replicas: int | None, tags: list[str]) -> None:
    """Applying the patch gives the fields that the defaulter set, and keeps every unknown field."""

    def default(site: Site, ctx: AdmissionContext) -> None:
        site.spec.replicas, site.spec.tags = replicas, list(tags)

    tree = {**site_tree(), "spec": spec}
    response = asyncio.run(DefaulterHandler(Site, default).handle(request(object=tree)))
    after = apply_json_patch(tree, response.patches)["spec"]
    assert after.get("replicas") == replicas
    assert (after.get("tags") or []) == tags
    assert after.get("future") == spec.get("future")
    assert after.get("image") == spec.get("image")


class Rules:
    """Remembers its calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def validate_create(self, site: Site, ctx: AdmissionContext) -> Sequence[str]:
        self.calls.append(("create", site.spec.image))
        return ["careful"]

    async def validate_update(self, old: Site, new: Site, ctx: AdmissionContext) -> None:
        self.calls.append(("update", old.spec.image, new.spec.image))
        ctx.warn("changed")
        if new.spec.image == "bad":
            raise AdmissionDeniedError("bad image", warnings=["very bad"])

    def validate_delete(self, site: Site, ctx: AdmissionContext) -> None:
        self.calls.append(("delete", site.spec.image))
        raise ConflictError("still in use")


@pytest.mark.behaviour(125)
async def test_each_operation_gets_its_objects() -> None:
    """Create gets the new object, update both, delete the old one; connect is allowed without a call."""
    rules = Rules()
    handler = ValidatorHandler(Site, rules)
    created = await handler.handle(request(object=site_tree(image="1")))
    assert (created.allowed, created.warnings) == (True, ("careful",))
    updated = await handler.handle(request("UPDATE", old_object=site_tree(image="1"), object=site_tree(image="2")))
    assert (updated.allowed, updated.warnings) == (True, ("changed",))
    deleted = await handler.handle(request("DELETE", old_object=site_tree(image="2")))
    assert (deleted.allowed, deleted.code, deleted.reason) == (False, 409, "Conflict")
    assert (await handler.handle(request("CONNECT", object={"kind": "PodExecOptions"}))).allowed
    assert rules.calls == [("create", "1"), ("update", "1", "2"), ("delete", "2")]


async def test_a_rule_that_blocks_runs_in_a_thread() -> None:
    """A decorated method reads from the server without await, warns and denies; a plain one runs in the loop."""
    async with Environment() as env, Cluster(env.config) as cluster:
        threads: list[bool] = []

        class Limits:
            @blocking
            def validate_create(self, site: Site, ctx: AdmissionContext) -> None:
                threads.append(threading.current_thread() is threading.main_thread())
                namespaces = [n.metadata.name for n in BlockingClient(cluster.uncached).list(Namespace)]
                ctx.warn(f"default exists: {'default' in namespaces}")
                if site.spec.image == "bad":
                    raise AdmissionDeniedError("no")

            def validate_delete(self, site: Site, ctx: AdmissionContext) -> None:
                threads.append(threading.current_thread() is threading.main_thread())

        handler = ValidatorHandler(Site, Limits())
        good, bad = [await handler.handle(request(object=site_tree(image=image))) for image in ("good", "bad")]
        assert (good.allowed, bad.allowed) == (True, False)
        assert good.warnings == bad.warnings == ("default exists: True",)
        assert (await handler.handle(request("DELETE", old_object=site_tree()))).allowed
    assert threads == [False, False, True]


@pytest.mark.behaviour(123)
async def test_warnings_come_with_denials_too() -> None:
    """The client sees them whether the request is allowed or not."""
    response = await ValidatorHandler(Site, Rules()).handle(
        request("UPDATE", old_object=site_tree(), object=site_tree(image="bad"))
    )
    assert (response.allowed, sorted(response.warnings)) == (False, ["changed", "very bad"])


@pytest.mark.behaviour(125)
@pytest.mark.parametrize("operation", ["", "PATCH", "create"])
async def test_an_unknown_operation_is_a_bad_request(operation: str) -> None:
    """An unknown operation gets the code 400."""
    response = await ValidatorHandler(Site, Rules()).handle(request(operation, object=site_tree()))
    assert (response.allowed, response.code) == (False, 400)


@pytest.mark.parametrize("tree", [None, {}, {"apiVersion": "v1", "kind": "Pod"}])
async def test_an_object_that_does_not_decode_is_a_bad_request(tree: JsonObject | None) -> None:
    """Missing objects and other kinds are answered with 400 and a reason."""
    for handler in (ValidatorHandler(Site, Rules()), DefaulterHandler(Site, set_replicas)):
        response = await handler.handle(request(object=tree))
        assert (response.allowed, response.code) == (False, 400)
        assert response.message


class BoundedSpec(Model):
    """A specification with bounds."""

    size: Annotated[int, Meta(le=5)] = 1
    color: Literal["red", "blue"] = "red"


class Bounded(Object[BoundedSpec, None]):
    """A kind with bounds."""

    gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Site")


INVALID = [
    ({"size": 6}, ["spec.size: Invalid value: 6: spec.size in body should be less than or equal to 5"]),
    ({"color": "green"}, ['spec.color: Unsupported value: "green": supported values: "blue", "red"']),
    ({"size": "6"}, ['spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"']),
    (
        {"size": 6, "color": "green"},
        [
            "spec.size: Invalid value: 6: spec.size in body should be less than or equal to 5",
            'spec.color: Unsupported value: "green": supported values: "blue", "red"',
        ],
    ),
]


@pytest.mark.parametrize(("spec", "fields"), INVALID)
async def test_an_invalid_object_is_denied_in_the_words_of_the_server(spec: JsonObject, fields: list[str]) -> None:
    """The client gets 422 with every field, as from the schema, which the server checks after mutating webhooks."""
    handlers = DefaulterHandler(Bounded, lambda _, __: None), ValidatorHandler(Bounded, create=lambda _, __: None)
    tree = {**site_tree(), "spec": spec}
    for handler in handlers:
        response = await handler.handle(request(object=tree))
        assert (response.code, response.reason) == (422, "Invalid")
        assert sorted(f"{cause.field}: {cause.message}" for cause in response.causes) == sorted(fields)
        assert response.message.startswith('Site.demo.opsdk.dev "a" is invalid: ')
        assert all(text in response.message for text in fields)


async def test_the_denial_equals_that_of_the_server(k8s_env: Environment) -> None:
    """A server that validates the same objects by the same class answers with the same causes."""
    async with Cluster(k8s_env.config) as cluster:
        await install_definitions(cluster.uncached, [crd_for(Bounded)])
        for spec, _ in INVALID:
            tree = {**site_tree(), "spec": spec}
            with pytest.raises(InvalidError) as error:
                await cluster.uncached.create(Unstructured.from_tree(tree))
            response = await DefaulterHandler(Bounded, lambda _, __: None).handle(request(object=tree))
            assert response.message == error.value.message
            assert list(response.causes) == list(error.value.details.causes)
            details = error.value.details
            assert response.details == {"name": details.name, "group": details.group, "kind": details.kind}


@pytest.mark.parametrize(("spec", "decodes"), [({"size": 6}, True), ({"color": "green"}, False)])
async def test_a_stored_object_may_break_bounds(spec: JsonObject, decodes: bool) -> None:
    """A stored object out of bounds decodes, so it stays deletable; one of a wrong type does not."""
    validator = ValidatorHandler(Bounded, delete=lambda _, __: None)
    stored = await validator.handle(request("DELETE", old_object={**site_tree(), "spec": spec}))
    assert (stored.allowed, stored.code) == ((True, 200) if decodes else (False, 400))


@pytest.mark.parametrize("result", [False, True, 0, {"allowed": False}])
async def test_a_validator_that_returns_a_verdict_does_not_allow(result: Any) -> None:
    """A validator that returns a boolean raises an error that says how to deny."""

    def verdict(site: Site, ctx: AdmissionContext) -> Any:
        return result

    with pytest.raises(UsageError, match="raise AdmissionDeniedError"):
        await ValidatorHandler(Site, create=verdict).handle(request(object=site_tree()))
    text = await ValidatorHandler(Site, create=lambda _, __: "careful").handle(request(object=site_tree()))
    assert text.warnings == ("careful",)


async def test_a_defaulter_that_returns_another_object_fails() -> None:
    """A defaulter that returns another object is an error, because its changes would be lost."""

    def replace(site: Site, ctx: AdmissionContext) -> Any:
        return Site(spec=site.spec)

    with pytest.raises(UsageError, match="in place"):
        await DefaulterHandler(Site, replace).handle(request(object=site_tree()))


async def test_functions_are_validators() -> None:
    """Operations without a function are allowed."""

    def only_nginx(site: Site, ctx: AdmissionContext) -> None:
        if site.spec.image != "nginx":
            raise AdmissionDeniedError("only nginx")

    handler = ValidatorHandler(Site, create=only_nginx)
    assert handler.operations == ("CREATE",)
    assert not (await handler.handle(request(object=site_tree(image="x")))).allowed
    assert (await handler.handle(request("UPDATE", object=site_tree(image="x")))).allowed


def test_what_is_no_rule_is_refused() -> None:
    """The error says which methods are needed."""
    with pytest.raises(UsageError, match="validate_create"):
        ValidatorHandler(Site, object())
    with pytest.raises(UsageError, match="def default"):
        DefaulterHandler(Site, 5)  # type: ignore[arg-type]


async def test_the_context_knows_the_request() -> None:
    """User, operation, subresource, options and dry run."""
    contexts: list[AdmissionContext] = []
    await ValidatorHandler(Site, create=lambda _, ctx: contexts.append(ctx)).handle(
        request(object=site_tree(), dry_run=True, subresource="status", options={"kind": "x"})
    )
    (ctx,) = contexts
    assert (ctx.user.username, ctx.operation, ctx.subresource, ctx.dry_run) == ("ann", "CREATE", "status", True)
    assert ctx.options == {"kind": "x"}


class Answer:
    """A handler that remembers that it was called."""

    def __init__(self, response: AdmissionResponse) -> None:
        self.response = response
        self.called = False

    async def handle(self, request: AdmissionRequest) -> AdmissionResponse:
        self.called = True
        return self.response


async def test_several_handlers_stop_at_the_first_denial() -> None:
    """Patches and warnings before it are joined; handlers after it are not called."""
    first = Answer(AdmissionResponse(allowed=True, patches=({"op": "remove", "path": "/a"},), warnings=("1",)))
    second = Answer(AdmissionResponse(allowed=True, patches=({"op": "remove", "path": "/b"},), warnings=("2",)))
    both = await MultiMutatingHandler(first, second).handle(request())
    assert ([p["path"] for p in both.patches], both.warnings) == (["/a", "/b"], ("1", "2"))
    refusing, last = Answer(denied("no").with_warnings("3")), Answer(allowed())
    for kind in (MultiMutatingHandler, MultiValidatingHandler):
        response = await kind(first, refusing, last).handle(request())
        assert (response.allowed, response.message, sorted(response.warnings)) == (False, "no", ["1", "3"])
    assert not last.called
    assert (await MultiValidatingHandler(first, second).handle(request())).warnings == ("1", "2")
