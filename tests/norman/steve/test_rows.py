"""Rows of a page: encoding, caching and links."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from stevekit import entry

from opsdk.apiserver.auth.rbac import PolicyRule
from opsdk.norman.collections.access_set import AccessSet
from opsdk.norman.collections.encoded_objects import EncodedObjects
from opsdk.norman.steve.cluster_schemas import SteveSchema
from opsdk.norman.steve.resources import ResourceLinks, SteveUrls, own_fields

VERBS = {"update": "update", "patch": "patch", "remove": "delete", "view": "get"}
THING = SteveSchema(
    id="demo.thing",
    plural_name="demo.things",
    group="demo",
    version="v1",
    kind="Thing",
    resource="things",
    namespaced=True,
    verbs=tuple(VERBS.values()),
    actions=("roll",),
)
URLS = SteveUrls("http://steve")
NOTHING = AccessSet.of([])


async def test_a_version_of_an_object_is_encoded_once_for_all_users() -> None:
    """A changed object is encoded again; without room nothing is kept."""
    calls: list[str] = []

    def decorate(tree: Any) -> Any:
        calls.append(tree["metadata"]["resourceVersion"])
        return tree

    everything = AccessSet.of([("", PolicyRule(verbs=("*",), groups=("*",), resources=("*",)))])
    rows, first, second = EncodedObjects(decorate, 10_000), entry("a", "n", 1), entry("a", "n", 2)
    for access in (NOTHING, everything):
        for item in (first, second):
            row = msgspec.json.decode(ResourceLinks(THING, access, URLS).add_to(await rows.get(item), *item.key))
            assert (row["id"], row["metadata"]["resourceVersion"]) == ("n/a", item.resource_version)
            assert ("remove" in row["links"]) is (access is everything)
    assert calls == ["1", "2"]
    none_kept = EncodedObjects(decorate, 5)
    assert await none_kept.get(first) == await rows.get(first)
    assert calls == ["1", "2", "1"]


async def test_fields_with_names_of_the_api_have_an_underscore() -> None:
    """The links and the id are those of the API."""
    item = entry("a", "n", 1, type="Opaque", links=["own"])
    encoded = await EncodedObjects(own_fields, 0).get(item)
    row = msgspec.json.decode(ResourceLinks(THING, NOTHING, URLS).add_to(encoded, *item.key))
    assert (row["type"], row["_type"], row["_links"]) == ("demo.thing", "Opaque", ["own"])
    assert row["links"] == {"self": "http://steve/v1/demo.things/n/a"}
    assert row["actions"] == {"roll": "http://steve/v1/demo.things/n/a?action=roll"}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["", "n", "m"]),
            st.builds(
                PolicyRule,
                verbs=st.lists(st.sampled_from(["*", *VERBS.values()]), max_size=2).map(tuple),
                groups=st.sampled_from([("*",), ("",), ("demo",)]),
                resources=st.sampled_from([("*",), ("things",), ("namespaces",)]),
                names=st.lists(st.sampled_from(["a", "n", "m"]), max_size=2).map(tuple),
            ),
        ),
        max_size=4,
    ),
    st.sampled_from(["namespaced", "cluster", "namespace"]),
)
def test_links_are_what_the_permissions_grant(grants: list[tuple[str, PolicyRule]], scope: str) -> None:
    """The permissions of all objects at once agree with a request for each object."""
    schema = THING
    if scope != "namespaced":
        schema = msgspec.structs.replace(THING, namespaced=False)
    if scope == "namespace":
        schema = msgspec.structs.replace(schema, group="", resource="namespaces")
    access = AccessSet.of(grants)
    links = ResourceLinks(schema, access, URLS)
    for namespace in ("n", "m") if schema.namespaced else ("",):
        for name in ("a", "n", "m"):
            place = name if scope == "namespace" else namespace
            granted = {
                link for link, verb in VERBS.items() if access.grants(verb, schema.group, schema.resource, place, name)
            }
            assert links.of(namespace, name)["links"].keys() == granted | {"self"}
