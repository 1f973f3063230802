"""`validate` gives the errors that the local API server gives for the same object, without a server."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest
from msgspec import field

import envtest
from opsdk import Cluster, GroupVersionKind, Model, Object, ObjectMeta
from opsdk.api.core.v1 import ConfigMap
from opsdk.apimachinery.crd import Rule, crd_for, validations
from opsdk.apimachinery.object import deep_copy
from opsdk.apiserver.validation import FieldProblem, validate
from opsdk.errors import InvalidError, UsageError


class SiteSpec(Model):
    """Rules of each kind."""

    rules = (Rule("self.min <= self.max", message="min is above max"),)
    min: Annotated[int, msgspec.Meta(ge=0)] = 0
    max: int = 9
    name: Annotated[str, msgspec.Meta(max_length=5)] = ""
    kind: Annotated[str, validations(Rule("self == oldSelf", message="kind never changes"))] = "a"
    hosts: list[Annotated[str, msgspec.Meta(pattern="^[a-z.]+$")]] = field(default_factory=list)


class Site(Object[SiteSpec, None]):
    """A kind with rules."""

    gvk = GroupVersionKind("tests.opsdk.dev", "v1", "Site")


def site(name: str = "a", **spec: Any) -> Site:
    """Return a site."""
    return Site(metadata=ObjectMeta(name=name, namespace="default"), spec=SiteSpec(**spec))


async def server_problems(cluster: Cluster, obj: Site, old: Site | None = None) -> list[FieldProblem]:
    """Return what the server says of the same request."""
    try:
        if old is None:
            await cluster.uncached.create(deep_copy(obj), dry_run=True)
        else:
            await cluster.uncached.update(deep_copy(obj), dry_run=True)
    except InvalidError as error:
        causes = error.details.causes
        return [FieldProblem(field="" if c.field == "<nil>" else c.field, message=c.message) for c in causes]
    return []


CREATED = [
    site(),
    site(min=-1),
    site(min=7, max=3),
    site(name="UPPER"),
    Site(metadata=ObjectMeta(name="b", namespace="default"), spec=SiteSpec(name="too long")),
    site(hosts=["a.example", "B"]),
    site(min=-3, max=-4, hosts=["1", "2"]),
]


async def test_a_create_has_the_errors_of_the_server() -> None:
    """Fields, order and messages are equal."""
    async with envtest.Environment(crds=[crd_for(Site)]) as env, Cluster(env.config) as cluster:
        for obj in CREATED:
            assert validate(obj) == await server_problems(cluster, obj)
    assert [bool(validate(obj)) for obj in CREATED] == [False, True, True, True, True, True, True]


async def test_an_update_has_the_errors_of_the_server() -> None:
    """Transition rules count, and a violation that was there before is tolerated with a warning."""
    async with envtest.Environment(crds=[crd_for(Site)]) as env, Cluster(env.config) as cluster:
        old = await cluster.uncached.create(site())
        for change in ({"kind": "b"}, {"max": -1}, {"name": "too long", "kind": "c"}, {"max": 5}):
            new = deep_copy(old)
            for name, value in change.items():
                setattr(new.spec, name, value)
            assert validate(new, old) == await server_problems(cluster, new, old)
    before, after = site(hosts=["B"]), site(hosts=["B"], max=7)
    assert validate(after, before) == []


def test_an_object_is_not_changed() -> None:
    """Defaults of the check are not those of the object."""
    obj = site(min=3)
    before = msgspec.json.encode(obj.spec)
    validate(obj)
    assert msgspec.json.encode(obj.spec) == before


def test_a_kind_without_a_definition_is_refused() -> None:
    """The rules of built-in kinds are not in their classes."""
    with pytest.raises(UsageError, match="is not a custom resource"):
        validate(ConfigMap(metadata=ObjectMeta(name="a")))  # type: ignore[arg-type]
