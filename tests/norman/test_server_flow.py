"""The flow of a request through the server."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest
import yaml
from normankit import BROWSER, V3, NormanKit

from opsdk.api.authentication.v1 import UserInfo
from opsdk.errors import ConfigError, ConflictError, ConnectError
from opsdk.http.server.request import HttpRequest
from opsdk.http.server.response import HttpResponse
from opsdk.http.server.unread import UnreadBytes
from opsdk.norman.access import AllAccess
from opsdk.norman.codes import ErrorCode
from opsdk.norman.model import ApiContext, GenericCollection, NextHandler, RawResource, RequestResult, Schema
from opsdk.norman.registry import SchemaRegistry
from opsdk.norman.schema_parts import Action, ApiVersion, Field, Filter, Modifier
from opsdk.norman.server import server as server_module
from opsdk.norman.server.reading import MAX_BODY_BYTES, MAX_YAML_BYTES
from opsdk.norman.server.server import NormanOptions, NormanServer
from opsdk.norman.stores.memory import MemoryStore

ALL = ("GET", "PUT", "DELETE")
EVERY = tuple(Modifier)


def schema(schema_id: str, fields: dict[str, Field], **options: Any) -> Schema:
    """Return a schema with all methods and a memory store."""
    values = {
        "version": V3,
        "resource_methods": ALL,
        "collection_methods": ("GET", "POST"),
        "resource_fields": fields,
        "store": MemoryStore(),
        **options,
    }
    return Schema(id=schema_id, **values)


def kit(*schemas: Schema, **options: Any) -> NormanKit:
    """Return a server of schemas."""
    registry = SchemaRegistry()
    for each in schemas:
        registry.add(each)
    return NormanKit(NormanServer(registry, **options))


def book(**options: Any) -> Schema:
    """Return a schema with a field of each rule."""
    fields = {
        "name": Field(type="string", update=False, required=True),
        "pages": Field(type="int", min=1, max=5000, nullable=True),
        "title": Field(type="string", min_length=2, max_length=8, nullable=True),
        "genre": Field(type="enum", options=("fable", "novel"), nullable=True),
        "code": Field(type="string", valid_chars="ab", nullable=True),
        "shelf": Field(type="string", invalid_chars="/", nullable=True),
        "published": Field(type="date", nullable=True),
        "label": Field(type="dnsLabel", nullable=True),
        "owner": Field(type="string", default="library"),
        "key": Field(type="password", nullable=True),
        "token": Field(type="string", write_only=True, nullable=True),
        "solid": Field(type="string"),
        "tags": Field(type="array[string]", nullable=True),
        "counts": Field(type="map[int]", nullable=True),
        "chapters": Field(type="array[chapter]", nullable=True),
        "authorId": Field(type="reference[author]", nullable=True),
        "extra": Field(type="json", nullable=True),
        "alien": Field(type="nowhere", nullable=True),
    }
    filters = {name: Filter(modifiers=EVERY) for name in ("name", "pages", "genre")}
    return schema("book", fields, collection_filters=filters, **options)


def library(**options: Any) -> NormanKit:
    """Return a server of books with chapters and authors."""
    chapter = Schema(id="chapter", version=V3, resource_fields={"start": Field(type="int", required=True, min=1)})
    nowhere = Schema(id="nowhere", version=V3)
    author = schema("author", {"name": Field(type="string")})
    served = kit(book(**options), chapter, nowhere, author)
    served.server.schemas.remove(nowhere)
    return served


# ------------------------------------------------------------------- bodies
@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"pages": 0}, (422, "MinLimitExceeded", "pages")),
        ({"pages": 5001}, (422, "MaxLimitExceeded", "pages")),
        ({"pages": "many"}, (422, "InvalidFormat", "pages")),
        ({"pages": 1 << 70}, (422, "InvalidFormat", "pages")),
        ({"title": "a"}, (422, "MinLengthExceeded", "title")),
        ({"title": "a" * 9}, (422, "MaxLengthExceeded", "title")),
        ({"genre": "poem"}, (422, "InvalidOption", "genre")),
        ({"code": "abc"}, (422, "InvalidCharacters", "code")),
        ({"shelf": "a/b"}, (422, "InvalidCharacters", "shelf")),
        ({"published": "yesterday"}, (422, "InvalidDateFormat", "published")),
        ({"label": "Not_A_Label"}, (422, "InvalidFormat", "label")),
        ({"solid": None}, (422, "NotNullable", "solid")),
        ({"tags": ["a", None]}, (422, "NotNullable", "tags.1")),
        ({"tags": "a"}, (422, "InvalidFormat", "tags")),
        ({"counts": {"a": "x"}}, (422, "InvalidFormat", "counts.a")),
        ({"chapters": [{"start": 3}, {}]}, (422, "MissingRequired", "chapters.1.start")),
        ({"chapters": [{"start": 0}]}, (422, "MinLimitExceeded", "chapters.0.start")),
        ({"chapters": ["one"]}, (422, "InvalidFormat", "chapters.0")),
        ({"authorId": "nobody"}, (422, "InvalidReference", "authorId")),
        ({"alien": {}}, (422, "InvalidType", "alien")),
        ({"name": ""}, (422, "NotNullable", "name")),
    ],
)
async def test_each_rule_of_a_field_has_its_code(fields: dict[str, Any], error: tuple[int, str, str]) -> None:
    """A value that breaks a rule is refused with the code of the rule and the path of the field."""
    answer = await library().post("/v3/books", {"name": "a", **fields})
    assert (answer.status, answer.error) == (422, error)
    assert answer.body["type"] == "/meta/schemas/error"


async def test_a_required_field_must_be_there() -> None:
    """A create without a required field is MissingRequired; an update may omit it."""
    served = library()
    assert (await served.post("/v3/books", {})).error == (422, "MissingRequired", "name")
    await served.post("/v3/books", {"name": "a"})
    assert (await served.call("PUT", "/v3/books/a", {"pages": 3})).body["pages"] == 3


async def test_the_name_of_an_object_is_unique() -> None:
    """The memory store refuses a second object with the id."""
    served = library()
    await served.post("/v3/books", {"name": "a"})
    assert (await served.post("/v3/books", {"name": "a"})).error == (422, "NotUnique", "name")


def _chain(first: str, link: str) -> bytes:
    """Return YAML in which each of 40 values stands for twice as much as the one before."""
    lines = [f"a{number}: &a{number} {link.format(f'*a{number - 1}')}" for number in range(1, 40)]
    return "\n".join([first, *lines]).encode()


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"{", "application/json"),
        (b"[1]", "application/json"),
        (b'{"a":' * 100_000, "application/json"),
        (b"a: [", "application/yaml"),
        (b"a: " + b"x" * MAX_YAML_BYTES, "application/yaml"),
        (b"[" * 200_000, "application/yaml"),
        (b"- " * 100_000, "application/yaml"),
        (b"{a: " * 50_000, "application/yaml"),
        (b"a: &a [" + b"b," * 1000 + b"]\nc: [" + b"*a," * 500 + b"]", "application/yaml"),
        (_chain("a0: &a0 [x]", "[{0}, {0}]"), "application/yaml"),
        (_chain("a0: &a0 {x: 1}", "{{<<: [{0}, {0}]}}"), "application/yaml"),
        (b"a: &a {<<: [*a, *a], b: {<<: *a}}", "application/yaml"),
        (b"x" * (MAX_BODY_BYTES + 1), "application/json"),
        (b"--x", "multipart/form-data"),
        (b"\xff\xfe", "application/x-www-form-urlencoded"),
    ],
)
async def test_a_body_that_does_not_parse_is_refused(body: bytes, content_type: str) -> None:
    """A body that is broken, too deep, too large, or expands is InvalidBodyContent, and the server continues."""
    response = await library().raw("POST", "/v3/books", body, {"content-type": content_type})
    assert (response.status, msgspec.json.decode(response.body)["code"]) == (422, "InvalidBodyContent")


async def test_a_nested_value_has_a_limit() -> None:
    """A recursive schema cannot be used to exhaust the stack."""
    node = schema("node", {"name": Field(type="string"), "next": Field(type="node", nullable=True)})
    body: dict[str, Any] = {}
    for _ in range(500):
        body = {"next": body}
    answer = await kit(node).post("/v3/nodes", {"name": "a", **body})
    assert answer.body["code"] == "InvalidBodyContent"


async def test_unknown_fields_are_dropped_and_defaults_filled() -> None:
    """What the schema does not know is not stored; a field that only a create sets ignores an update."""
    served = library()
    created = await served.post("/v3/books", {"name": "a", "unknown": 1, "pages": "12"})
    assert (created.status, created.body["pages"], created.body["owner"]) == (201, 12, "library")
    assert "unknown" not in created.body
    updated = await served.call("PUT", "/v3/books/a", {"name": "b", "pages": 13, "unknown": 2})
    assert (updated.status, updated.body["name"], updated.body["pages"]) == (200, "a", 13)


async def test_secrets_do_not_come_back() -> None:
    """A password is never returned; a write-only field only in the response to its create."""
    served = library()
    created = await served.post("/v3/books", {"name": "a", "key": "secret", "token": "once"})
    assert created.body["token"] == "once"
    assert "key" not in created.body
    for url in ("/v3/books", "/v3/books/a"):
        body = (await served.get(url)).body
        text = msgspec.json.encode(body)
        assert b"secret" not in text
        assert b"once" not in text


async def test_forms_and_yaml_are_bodies_too() -> None:
    """A form's values are lists; a field takes the first one, or all of them."""
    served = library()
    form = {"content-type": "application/x-www-form-urlencoded"}
    response = await served.raw("POST", "/v3/books", b"name=a&pages=3&tags=x&tags=y", form)
    assert msgspec.json.decode(response.body)["tags"] == ["x", "y"]
    boundary = {"content-type": "multipart/form-data; boundary=x"}
    part = b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\nb\r\n--x--\r\n'
    assert (await served.raw("POST", "/v3/books", part, boundary)).status == 201
    response = await served.raw("POST", "/v3/books", b"name: c\npages: 4\n", {"content-type": "application/yaml"})
    assert msgspec.json.decode(response.body)["pages"] == 4


# ------------------------------------------------------------------ methods
@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS"])
async def test_a_method_that_the_schema_lacks(method: str) -> None:
    """A missing method is a 405 MethodNotAllow that names the method."""
    answer = await kit(schema("book", {}, collection_methods=("GET",))).call(method, "/v3/books", {})
    assert answer.error == (405, "MethodNotAllow", None)
    assert answer.body["message"] == f"Method {method} not supported"


async def test_statuses_of_the_verbs() -> None:
    """Create is 201, get, list and update 200, delete 204, a second delete 404."""
    served = library()
    assert (await served.post("/v3/books", {"name": "a"})).status == 201
    assert (await served.get("/v3/books")).status == 200
    assert (await served.get("/v3/books/a")).status == 200
    assert (await served.call("PUT", "/v3/books/a", {"pages": 1})).status == 200
    assert (await served.call("DELETE", "/v3/books/a")).status == 204
    assert (await served.call("DELETE", "/v3/books/a")).error == (404, "NotFound", None)


async def test_methods_in_the_query() -> None:
    """``?action=remove`` and ``?_method=DELETE`` delete, for clients that can only POST."""
    served = library()
    for query in ("action=remove", "_method=DELETE", "_method=delete"):
        await served.post("/v3/books", {"name": "a"})
        assert (await served.post(f"/v3/books/a?{query}")).status == 204
        assert (await served.get("/v3/books/a")).status == 404


async def test_a_path_that_names_nothing() -> None:
    """An unknown version or type is a 404; a version and the root list their contents."""
    served = library()
    assert (await served.get("/v9/books")).error == (404, "NotFound", None)
    assert (await served.get("/v3/films")).body["message"] == "failed to find schema films"
    root = await served.get("/")
    assert [item["apiVersion"]["path"] for item in root.data] == ["/v3", "/meta"]
    version = (await served.get("/v3")).body
    assert version["links"]["books"] == "http://example.com/v3/books"
    assert version["links"]["self"] == "http://example.com/v3"


async def test_a_disabled_schema_is_not_served() -> None:
    """A disabled schema is a 404 ActionNotAvailable and is not listed."""
    enabled = False
    served = kit(schema("book", {}, enabled=lambda: enabled))
    assert (await served.get("/v3/books")).error == (404, "ActionNotAvailable", None)
    assert (await served.get("/v3/schemas")).data == []
    enabled = True
    assert (await served.get("/v3/books")).status == 200
    assert [item["id"] for item in (await served.get("/v3/schemas")).data] == ["book"]


async def test_a_disabled_schema_has_no_links_and_no_watches() -> None:
    """Other objects do not link to its collection, and neither links nor subscriptions reach its objects."""
    enabled = True
    author = schema("author", {"name": Field(type="string")})
    fields = {"name": Field(type="string"), "authorId": Field(type="reference[author]")}
    served = kit(author, schema("book", fields, enabled=lambda: enabled))
    await served.post("/v3/authors", {"name": "ada"})
    await served.post("/v3/books", {"name": "dune", "authorId": "ada"})
    assert "books" in (await served.get("/v3/authors/ada")).body["links"]
    enabled = False
    assert "books" not in (await served.get("/v3/authors/ada")).body["links"]
    assert (await served.get("/v3/authors/ada/books")).error == (404, "NotFound", None)
    subscribed = await served.get("/v3/subscribe?resourceTypes=book")
    assert (subscribed.status, subscribed.body["message"]) == (404, "no resources types matched")


# ---------------------------------------------------------------- handlers
async def test_a_handler_calls_the_next_one() -> None:
    """A list handler may change the request or the result of the default one."""

    async def only_fables(context: ApiContext, next_handler: NextHandler) -> RequestResult:
        result = await next_handler(context)
        assert isinstance(result, GenericCollection)
        result.data = [resource for resource in result.data if resource.values.get("genre") == "fable"]
        return result

    served = library(list_handler=only_fables)
    await served.post("/v3/books", {"name": "a", "genre": "fable"})
    await served.post("/v3/books", {"name": "b", "genre": "novel"})
    assert [item["id"] for item in (await served.get("/v3/books")).data] == ["a"]


async def test_actions_are_checked_and_run() -> None:
    """The input is built from its schema; an unknown action is InvalidAction, and so is one with a link."""
    calls: list[tuple[str, str, dict[str, Any]]] = []

    async def act(context: ApiContext, name: str, body: dict[str, Any]) -> RequestResult:
        calls.append((name, context.id, body))
        return {"done": True, "hidden": 1}

    loan = Schema(id="loan", version=V3, resource_fields={"days": Field(type="int", min=1, required=True)})
    receipt = Schema(id="receipt", version=V3, resource_fields={"done": Field(type="boolean")})
    actions = {"lend": Action(input="loan", output="receipt")}
    served = kit(
        schema(
            "book",
            {"name": Field(type="string")},
            resource_actions=actions,
            collection_actions={"audit": Action()},
            action_handler=act,
        ),
        loan,
        receipt,
    )
    created = await served.post("/v3/books", {"name": "a"})
    url = created.body["actions"]["lend"]
    assert url == "http://example.com/v3/books/a?action=lend"
    assert (await served.post("/v3/books/a?action=lend", {"days": 0})).error == (422, "MinLimitExceeded", "days")
    answer = await served.post("/v3/books/a?action=lend", {"days": "3", "junk": 1})
    assert (answer.status, answer.body["done"], "hidden" in answer.body) == (200, True, False)
    assert calls == [("lend", "a", {"days": 3})]
    assert (await served.post("/v3/books?action=audit")).status == 200
    assert (await served.post("/v3/books/a?action=burn")).error == (422, "InvalidAction", None)
    assert (await served.post("/v3/books/zzz?action=lend", {"days": 1})).error == (404, "NotFound", None)
    listed = (await served.get("/v3/books")).body
    assert listed["actions"] == {"audit": "http://example.com/v3/books?action=audit"}


async def test_a_formatter_takes_an_action_away() -> None:
    """An action that the object does not offer now is ActionNotAvailable."""

    def format_book(context: ApiContext, resource: RawResource) -> None:
        if resource.values.get("lent"):
            del resource.actions["lend"]

    async def act(context: ApiContext, name: str, body: dict[str, Any]) -> RequestResult:
        return None

    fields = {"name": Field(type="string"), "lent": Field(type="boolean")}
    served = kit(schema("book", fields, formatter=format_book, resource_actions={"lend": Action()}, action_handler=act))
    await served.post("/v3/books", {"name": "a", "lent": False})
    assert (await served.post("/v3/books/a?action=lend")).status == 204
    await served.call("PUT", "/v3/books/a", {"lent": True})
    assert (await served.get("/v3/books/a")).body["actions"] == {}
    assert (await served.post("/v3/books/a?action=lend")).error == (404, "ActionNotAvailable", None)


async def test_validators_formatters_and_error_handlers() -> None:
    """The input formatter runs before the checks, the validator after them; an error handler may answer itself."""
    order: list[str] = []

    def before(context: ApiContext, current: Schema, data: dict[str, Any], create: bool) -> None:
        order.append(f"input {create}")
        data["name"] = data["name"].lower()

    def validate(context: ApiContext, current: Schema, data: dict[str, Any]) -> None:
        order.append(f"validate {data['name']}")
        raise ErrorCode.INVALID_STATE.error("not now", field_name="name")

    served = kit(schema("book", {"name": Field(type="string")}, input_formatter=before, validator=validate))
    assert (await served.post("/v3/books", {"name": "ABC"})).error == (422, "InvalidState", "name")
    assert order == ["input True", "validate abc"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConflictError("modified"), (409, "Conflict", None)),
        (ConnectError("refused"), (503, "ClusterUnavailable", None)),
        (ValueError("secret detail"), (500, "ServerError", None)),
        (ConfigError("secret path"), (500, "ServerError", None)),
        (ErrorCode.CLUSTER_UNAVAILABLE.error("down"), (503, "ClusterUnavailable", None)),
    ],
)
async def test_exceptions_become_error_bodies(error: Exception, expected: tuple[int, str, None]) -> None:
    """An unexpected exception is a 500 that tells the client nothing about it."""

    async def fail(context: ApiContext, next_handler: NextHandler) -> RequestResult:
        raise error

    answer = await kit(schema("book", {}, list_handler=fail)).get("/v3/books")
    assert answer.error == expected
    assert "secret" not in answer.body["message"]


# ------------------------------------------------------------- collections
async def shelf(count: int) -> NormanKit:
    """Return a server with `count` books."""
    served = library()
    for number in range(count):
        genre = "fable" if number % 2 else "novel"
        await served.post("/v3/books", {"name": f"b{number:03}", "pages": (number * 7) % 100 + 1, "genre": genre})
    return served


async def test_declared_filters_select_objects() -> None:
    """Undeclared filters are ignored; IN accepts commas; null and notnull need no value."""
    served = await shelf(10)
    for query, count in [
        ("name=b001", 1),
        ("name_in=b001,b002", 2),
        ("name_notin=b001,b002", 8),
        ("name_ne=b001", 9),
        ("pages_null", 0),
        ("pages_notnull", 10),
        ("genre=fable&name_ne=b001", 4),
        ("owner=nobody", 10),
        ("title=x", 10),
    ]:
        assert len((await served.get(f"/v3/books?{query}")).data) == count, query
    body = (await served.get("/v3/books?name_in=b001,b002")).body
    assert body["filters"]["name"] == [{"modifier": "in", "value": ["b001", "b002"]}]
    assert body["filters"]["genre"] is None


async def test_sort_and_its_links() -> None:
    """Numbers are sorted as numbers; the reverse link reverses the order."""
    served = await shelf(20)
    pages = [item["pages"] for item in (await served.get("/v3/books?sort=pages")).data]
    assert pages == sorted(pages)
    body = (await served.get("/v3/books?sort=name&order=desc")).body
    assert body["data"][0]["id"] == "b019"
    assert body["sort"]["reverse"] == "http://example.com/v3/books?sort=name&order=asc"
    assert body["sort"]["links"]["genre"] == "http://example.com/v3/books?sort=genre"
    assert (await served.get("/v3/books?sort=owner")).body["sort"]["name"] == "id"


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("sort", ["", "name", "pages", "genre"])
async def test_a_walk_by_next_sees_each_object_once(sort: str, order: str) -> None:
    """Pages have the links first, previous, next and last, and the total."""
    served = await shelf(23)
    url, ids, pages = f"/v3/books?limit=5&sort={sort}&order={order}", [], 0
    while url:
        answer = await served.get(url.removeprefix("http://example.com"))
        ids += [item["id"] for item in answer.data]
        pagination = answer.body["pagination"]
        assert (pagination["total"], pagination["limit"], pagination["partial"]) == (23, 5, True)
        url = pagination.get("next", "")
        pages += 1
    assert (pages, len(ids), len(set(ids))) == (5, 23, 23)
    back = await served.get(pagination["previous"].removeprefix("http://example.com"))
    assert [item["id"] for item in back.data] == ids[15:20]
    first = await served.get(pagination["first"].removeprefix("http://example.com"))
    assert [item["id"] for item in first.data] == ids[:5]


async def test_a_page_whose_first_object_is_gone() -> None:
    """In the order of ids the page starts at the object that follows, so none is seen twice or left out."""
    served = await shelf(10)
    pagination = (await served.get("/v3/books?limit=4")).body["pagination"]
    await served.call("DELETE", "/v3/books/b004")
    rest = await served.get(pagination["next"].removeprefix("http://example.com"))
    assert [item["id"] for item in rest.data] == ["b005", "b006", "b007", "b008"]


@pytest.mark.parametrize(
    ("text", "limit"), [("", 1000), ("x", 1000), ("-1", 10000), ("20000", 10000), ("7", 7), ("0", 1000)]
)
async def test_limits_of_a_page(text: str, limit: int) -> None:
    """A page has 1,000 objects by default and 10,000 at most; -1 means the most."""
    served = await shelf(1)
    assert (await served.get(f"/v3/books?limit={text}")).body["pagination"]["limit"] == limit


async def test_a_collection_says_what_it_is() -> None:
    """A collection has type, resource type, links and createTypes."""
    body = (await (await shelf(1)).get("/v3/books")).body
    assert (body["type"], body["resourceType"]) == ("collection", "book")
    assert body["links"]["self"] == "http://example.com/v3/books"
    assert body["createTypes"] == {"book": "http://example.com/v3/books"}


# ------------------------------------------------------- resources and links
async def test_an_object_has_links_to_those_that_refer_to_it() -> None:
    """A field of the type reference makes a link with a filter; the link itself is served as well."""
    cluster = schema("cluster", {"name": Field(type="string")})
    node = schema("node", {"name": Field(type="string"), "clusterId": Field(type="reference[cluster]")})
    served = kit(cluster, node)
    await served.post("/v3/clusters", {"name": "c1"})
    await served.post("/v3/clusters", {"name": "c2"})
    await served.post("/v3/nodes", {"name": "n1", "clusterId": "c1"})
    await served.post("/v3/nodes", {"name": "n2", "clusterId": "c2"})
    links = (await served.get("/v3/clusters/c1")).body["links"]
    assert links["nodes"] == "http://example.com/v3/nodes?clusterId=c1"
    for url in ("/v3/nodes?clusterId=c1", "/v3/clusters/c1/nodes"):
        assert [item["id"] for item in (await served.get(url)).data] == ["n1"]
    assert (await served.get("/v3/clusters/c1/films")).error == (404, "NotFound", None)


async def test_dates_have_milliseconds_beside_them() -> None:
    """A date field ``created`` also has the number ``createdTS``."""
    served = library()
    await served.post("/v3/books", {"name": "a", "published": "2026-01-02T03:04:05Z"})
    assert (await served.get("/v3/books/a")).body["publishedTS"] == 1767323045000


async def test_edit_and_export() -> None:
    """``_edit`` returns the fields that an update accepts; ``_export`` those that recreate the object."""
    served = library()
    await served.post("/v3/books", {"name": "a", "pages": 3})
    assert (await served.get("/v3/books/a?_edit=true")).body == {
        "name": "a",
        "pages": 3,
        "owner": "library",
        "authorId": None,
    }
    assert (await served.get("/v3/books/a?_export=true")).body == {"name": "a", "pages": 3}


async def test_a_link_handler_may_call_the_next_one() -> None:
    """The default handler of a link serves the objects that refer to this one, or is a 404."""

    async def link(context: ApiContext, next_handler: NextHandler) -> RequestResult:
        result = await next_handler(context)
        assert isinstance(result, GenericCollection)
        result.data = result.data[:1]
        return result

    author = schema("author", {"name": Field(type="string")}, link_handler=link)
    served = kit(author, schema("book", {"authorId": Field(type="reference[author]")}))
    await served.post("/v3/authors", {"name": "ada"})
    for _ in range(2):
        await served.post("/v3/books", {"authorId": "ada"})
    assert len((await served.get("/v3/authors/ada/books")).data) == 1
    assert (await served.get("/v3/authors/ada/nothing")).error == (404, "NotFound", None)


async def test_a_link_handler_runs_after_the_object_is_found() -> None:
    """A link of a missing object is a 404."""

    async def link(context: ApiContext, next_handler: NextHandler) -> RequestResult:
        return {"link": context.link, "id": context.id}

    served = library(link_handler=link)
    await served.post("/v3/books", {"name": "a"})
    assert (await served.get("/v3/books/a/cover")).body == {"link": "cover", "id": "a"}
    assert (await served.get("/v3/books/b/cover")).status == 404


# ------------------------------------------------------------ sub-contexts
async def test_a_sub_context_filters_and_sets_the_owner() -> None:
    """The same schema lists everything at /v3, and the objects of one cluster at /v3/clusters/c1."""
    cluster = schema("cluster", {"name": Field(type="string")})
    node = schema("node", {"name": Field(type="string"), "clusterId": Field(type="reference[cluster]")})
    sub = ApiVersion(
        group="example.com",
        version="v3",
        path="/v3/clusters",
        sub_context=True,
        sub_context_schema="/v3/schemas/cluster",
    )
    pod = schema(
        "pod", {"name": Field(type="string"), "clusterId": Field(type="reference[/v3/schemas/cluster]")}, version=sub
    )
    served = kit(cluster, node, pod)
    for name in ("c1", "c2"):
        await served.post("/v3/clusters", {"name": name})
    await served.post("/v3/nodes", {"name": "n1", "clusterId": "c1"})
    await served.post("/v3/clusters/c2/nodes", {"name": "n2"})
    await served.post("/v3/clusters/c1/pods", {"name": "p1"})
    assert len((await served.get("/v3/nodes")).data) == 2
    assert [item["id"] for item in (await served.get("/v3/clusters/c2/nodes")).data] == ["n2"]
    assert (await served.get("/v3/nodes/n2")).body["clusterId"] == "c2"
    assert (await served.get("/v3/clusters/c1/pods/p1")).body["links"]["self"].endswith("/v3/clusters/c1/pods/p1")
    missing = await served.get("/v3/clusters/c2/pods/p1")
    assert (missing.status, missing.body["message"]) == (404, "failed to find p1")
    assert (await served.call("DELETE", "/v3/clusters/c2/nodes/n1")).status == 404
    assert (await served.call("PUT", "/v3/clusters/c2/nodes/n1", {"name": "x"})).status == 404
    assert (await served.get("/v3/clusters/c1")).body["links"]["pods"] == "http://example.com/v3/clusters/c1/pods"
    assert len((await served.get("/v3/clusters")).data) == 2
    assert "pod" in [item["id"] for item in (await served.get("/v3/clusters/schemas")).data]


# --------------------------------------------------------------- formats
async def test_formats_of_responses() -> None:
    """JSON is the default, YAML by Accept or ``_format``; browsers get JSON if there is no page."""
    served = library()
    await served.post("/v3/books", {"name": "a"})
    response = await served.raw("GET", "/v3/books/a", headers={"accept": "application/yaml"})
    assert yaml.safe_load(response.body)["id"] == "a"
    response = await served.raw("GET", "/v3/books/a?_format=yaml")
    assert dict(response.headers)["content-type"] == "application/yaml"
    answer = await served.get("/v3/books/a", **BROWSER)
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-api-schemas"] == "http://example.com/v3/schemas"
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_a_page_for_browsers() -> None:
    """The page gets the result; scripts of clients that only look like browsers can ask for JSON."""

    class Plain:
        async def before(self, context: ApiContext) -> HttpResponse | None:
            return HttpResponse(200, [], b"file") if context.request.path == "/file" else None

        async def handle(self, context: ApiContext) -> HttpResponse | None:
            return HttpResponse(200, [], b"form") if context.option("form") else None

        async def render(self, context: ApiContext, status: int, result: RequestResult) -> HttpResponse:
            return HttpResponse(status, [("content-type", "text/html")], b"<html>")

    served = kit(schema("book", {}), options=NormanOptions(page=Plain()))
    assert (await served.raw("GET", "/file")).body == b"file"
    assert (await served.raw("GET", "/v3/books?_form=1", headers=BROWSER)).body == b"form"
    assert msgspec.json.decode((await served.raw("GET", "/v3/books?_form=1")).body)["type"] == "collection"
    response = await served.raw("GET", "/v3/books", headers=BROWSER)
    assert (response.body, dict(response.headers)["content-type"]) == (b"<html>", "text/html")
    assert (await served.get("/v3/books?_format=json", **BROWSER)).body["type"] == "collection"
    assert (await served.get("/v3/films?_format=json", **BROWSER)).error[0] == 404


async def test_the_script_of_the_page_reads_the_status_in_the_body() -> None:
    """Browsers log each 4xx as an error of the page, so it gets 200; other clients get the status."""
    answer = await library().post("/v3/books", {}, x_norman_page="1")
    assert (answer.status, answer.error) == (200, (422, "MissingRequired", "name"))


async def test_links_for_clients_with_a_field_named_actions() -> None:
    """``X-API-Action-Links`` renames the actions."""
    served = library()
    await served.post("/v3/books", {"name": "a"})
    body = (await served.get("/v3/books/a", x_api_action_links="1")).body
    assert ("actionLinks" in body, "actions" in body) == (True, False)


# ------------------------------------------------------------- URLs, CSRF
@pytest.mark.parametrize(
    ("headers", "base"),
    [
        ({}, "http://example.com"),
        ({"x-forwarded-proto": "https", "x-forwarded-host": "a.example"}, "https://a.example"),
        ({"x-forwarded-proto": "wss"}, "https://example.com"),
        ({"x-forwarded-host": "a.example, b.example", "x-forwarded-port": "8443"}, "http://a.example:8443"),
        ({"x-forwarded-host": "a.example", "x-forwarded-port": "80"}, "http://a.example"),
        ({"x-api-host": "api.example", "x-forwarded-host": "a.example"}, "http://api.example"),
        ({"x-api-url-prefix": "/k8s/api"}, "http://example.com/k8s/api"),
        ({"x-forwarded-host": '"><script>'}, "http://example.com"),
        ({"x-forwarded-host": "evil.example/path?"}, "http://example.com"),
        ({"x-forwarded-proto": "javascript"}, "http://example.com"),
        ({"x-api-url-prefix": '/"><script>'}, "http://example.com"),
        ({"x-forwarded-host": "[::1]", "x-forwarded-port": "99"}, "http://[::1]:99"),
    ],
)
async def test_links_behind_proxies(headers: dict[str, str], base: str) -> None:
    """Headers of a trusted proxy build the links; what is not a host, a protocol or a path is ignored."""
    served = kit(schema("book", {}), options=NormanOptions(trust_forwarded=True))
    response = await served.raw("GET", "/v3/books", headers=headers)
    assert msgspec.json.decode(response.body)["links"]["self"] == f"{base}/v3/books"


async def test_a_forwarded_host_needs_a_trusted_proxy() -> None:
    """By default links have the host of the request."""
    served = library()
    forged = {"x-forwarded-host": "evil.example", "x-api-host": "evil.example", "x-api-url-prefix": "/evil"}
    response = await served.raw("GET", "/v3/books", headers=forged)
    assert msgspec.json.decode(response.body)["links"]["self"] == "http://example.com/v3/books"


async def csrf_cookie(served: NormanKit, **headers: str) -> str:
    """Return the CSRF token that a browser gets."""
    first = await served.get("/v3/books", **{"user_agent": "Mozilla/5.0", "accept": "application/json", **headers})
    cookie = first.headers["set-cookie"]
    assert "SameSite=Lax" in cookie
    return cookie.partition("=")[2].partition(";")[0]


async def test_a_browser_needs_its_token_for_a_write() -> None:
    """The cookie must be repeated in the header or the query; other clients need no token."""
    served = library()
    token = await csrf_cookie(served)
    agent = {"user_agent": "Mozilla/5.0", "cookie": f"a=b; CSRF={token}"}
    forged = [{}, {"x_api_csrf": "0" * 96}, {"x_api_csrf": ""}, {"x_api_csrf": "\u00e9"}]
    for headers in forged:
        answer = await served.post("/v3/books", {"name": "a"}, **agent, **headers)
        assert answer.error == (422, "InvalidCSRFToken", None)
    no_cookie = await served.post("/v3/books", {"name": "a"}, user_agent="Mozilla/5.0", x_api_csrf="")
    assert no_cookie.error == (422, "InvalidCSRFToken", None)
    hidden = await served.post("/v3/books/a?_method=DELETE", **agent)
    assert hidden.error == (422, "InvalidCSRFToken", None)
    assert (await served.post("/v3/books", {"name": "a"}, **agent, x_api_csrf=token)).status == 201
    assert (await served.post(f"/v3/books?CSRF={token}", {"name": "b"}, **agent)).status == 201
    assert (await served.post("/v3/books", {"name": "c"})).status == 201


@pytest.mark.parametrize(
    "headers",
    [
        {"cookie": "norman-token=ada"},
        {"cookie": "CSRF=x; norman-token=ada", "x_api_csrf": "x"},
        {"origin": "http://example.com"},
        {"sec_fetch_site": "same-origin"},
        {"sec_fetch_site": "same-origin", "authorization": "Basic eDp5"},
    ],
)
async def test_the_user_agent_decides_nothing_about_csrf(headers: dict[str, str]) -> None:
    """A session cookie, or a header that only browsers send, requires the token, whatever the user agent."""
    for agent in ("Mozilla/5.0", "curl/8", ""):
        answer = await library().post("/v3/books", {"name": "a"}, user_agent=agent, **headers)
        assert answer.error == (422, "InvalidCSRFToken", None)


async def test_a_csrf_token_belongs_to_its_session() -> None:
    """The token of one session is refused in another, which gets one of its own; a bearer token needs none."""
    served = library()
    ada, bob = "norman-token=ada", "norman-token=bob"
    token = await csrf_cookie(served, cookie=ada)
    stolen = await served.post("/v3/books", {"name": "a"}, cookie=f"{bob}; CSRF={token}", x_api_csrf=token)
    assert stolen.error == (422, "InvalidCSRFToken", None)
    own = await csrf_cookie(served, cookie=f"{bob}; CSRF={token}")
    assert (await served.post("/v3/books", {"name": "a"}, cookie=f"{bob}; CSRF={own}", x_api_csrf=own)).status == 201
    again = await served.get("/v3/books", cookie=f"{bob}; CSRF={own}", user_agent="Mozilla/5.0")
    assert "set-cookie" not in again.headers
    bearer = await served.post("/v3/books", {"name": "b"}, authorization="Bearer x", cookie=ada, origin="http://x")
    assert bearer.status == 201


@pytest.mark.parametrize(
    ("origin", "headers", "status"),
    [
        ("http://example.com", {}, 201),
        ("https://example.com", {}, 201),  # behind a proxy that sends no header
        ("https://example.com", {"x-forwarded-proto": "https"}, 201),
        ("http://example.com", {"x-forwarded-proto": "https"}, 403),
        ("http://example.com:8080", {}, 403),
        ("http://evil.example", {}, 403),
        ("null", {}, 403),
    ],
)
async def test_a_write_comes_from_a_page_of_this_origin(origin: str, headers: dict[str, str], status: int) -> None:
    """A write from another origin is rejected even with the token; the scheme is part of the origin."""
    served = library()
    token = await csrf_cookie(served)
    own = {"origin": origin, "cookie": f"CSRF={token}", "x-api-csrf": token, **headers}
    assert (await served.raw("POST", "/v3/books", b'{"name": "a"}', own)).status == status


@pytest.mark.parametrize("query", ["_method=DELETE", "_method=PUT", "action=remove"])
async def test_a_get_is_never_a_write(query: str) -> None:
    """An image of another page is a GET without Origin; only a POST can stand for another method."""
    served = library()
    await served.post("/v3/books", {"name": "a"})
    await served.get(f"/v3/books/a?{query}")
    assert (await served.get("/v3/books/a")).body["id"] == "a"


async def test_the_cookie_is_secure_over_https() -> None:
    """The cookie is Secure over HTTPS, even if a proxy terminates TLS."""
    served = library()
    for headers, scheme in (({}, "https"), ({"x-forwarded-proto": "https"}, "http")):
        response = await served.raw("GET", "/v3/books", headers={"user-agent": "Mozilla", **headers}, scheme=scheme)
        assert dict(response.headers)["set-cookie"].endswith("; Secure")


async def test_no_cache_keeps_a_response() -> None:
    """Objects, errors and responses of handlers are no-store and nosniff."""

    async def page(context: ApiContext, next_handler: NextHandler) -> RequestResult:
        return HttpResponse(200, [("content-type", "text/html")], b"<script>")

    served = library(link_handler=page)
    await served.post("/v3/books", {"name": "a"})
    for url in ("/v3/books", "/v3/books/a", "/v3/books/b", "/v3/books/a/page", "/", "/v9"):
        headers = (await served.raw("GET", url)).headers
        assert {("cache-control", "no-store"), ("x-content-type-options", "nosniff")} <= set(headers)


async def test_the_content_of_a_handler_has_no_power_over_the_page() -> None:
    """A response of a link handler is sandboxed, unless it has a policy of its own."""
    policies: list[tuple[str, str]] = []

    async def page(context: ApiContext, next_handler: NextHandler) -> RequestResult:
        return HttpResponse(200, [("content-type", "text/html"), *policies], b"<script>")

    served = library(link_handler=page)
    await served.post("/v3/books", {"name": "a"})
    for policy in ("sandbox", "default-src 'self'"):
        response = await served.raw("GET", "/v3/books/a/page")
        assert [value for name, value in response.headers if name.lower() == "content-security-policy"] == [policy]
        policies = [("Content-Security-Policy", "default-src 'self'")]


# ------------------------------------------------------------------ budgets
FORM_PART = b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\nb\r\n'


async def test_a_form_has_at_most_a_thousand_fields() -> None:
    """Both types of forms have at most 1,000 fields, and parsing takes linear time."""
    served = library()
    part = b'--x\r\nContent-Disposition: form-data; name="tags"\r\n\r\nb\r\n'
    for count, status in ((999, 201), (1001, 422), (28_000, 422)):
        body = b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\n%d\r\n' % count + part * count + b"--x--"
        response = await served.raw("POST", "/v3/books", body, {"content-type": "multipart/form-data; boundary=x"})
        assert response.status == status
        form = {"content-type": "application/x-www-form-urlencoded"}
        response = await served.raw("POST", "/v3/books", b"name=f%d" % count + b"&tags=b" * count, form)
        assert response.status == status


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (FORM_PART * 33_000 + b"--x--", "multipart/form-data; boundary=x"),
        (b"--x\r\nContent-Disposition: x; " + b"a=b; " * 340_000 + b"\r\n\r\n--x--", "multipart/form-data; boundary=x"),
        (b"--x\r\n" + b"a: b\r\n" * 280_000 + b"\r\nx\r\n--x--", "multipart/form-data; boundary=x"),
        (FORM_PART.strip() + b"\r\n" * 800_000 + b"--x--", "multipart/form-data; boundary=x"),
        (b"k: " + b"1:" * 100_000 + b"1", "application/yaml"),
        (b"k: !!int " + b"1:" * 100_000 + b"1", "application/yaml"),
    ],
)
async def test_a_body_costs_no_more_than_its_bytes(body: bytes, content_type: str) -> None:
    """Parts, parameters, lines and base-60 numbers take linear time."""
    served = library()
    started = time.process_time()
    await served.raw("POST", "/v3/books", body, {"content-type": content_type})
    assert time.process_time() - started < 0.4


async def test_a_refused_create_does_not_parse_the_body() -> None:
    """A forbidden create of a cluster-scoped type does not parse the body."""

    class Refusing(AllAccess):
        async def can_create(self, context: ApiContext, schema: Schema, data: Any = None) -> None:
            raise ErrorCode.PERMISSION_DENIED.error("no")

    served = kit(schema("book", {}), access=Refusing())
    response = await served.raw("POST", "/v3/books", b"{", {"content-type": "application/json"})
    assert response.status == 403


async def test_the_filters_of_a_request_have_a_budget() -> None:
    """Forty thousand alternatives are an error, not work for each object; a thousand are allowed."""
    served = await shelf(3)
    assert (await served.get("/v3/books?name_in=" + ",".join(["b000"] * 1000))).data[0]["id"] == "b000"
    for query in ("name_in=" + "a," * 40_000, "name_in=" + "a," * 600 + "&name_notin=" + "b," * 600, "name=a&" * 1001):
        assert (await served.get(f"/v3/books?{query}")).error[:2] == (422, "InvalidFormat")


async def test_a_body_refers_to_a_limited_number_of_objects() -> None:
    """Each reference is a read; equal ones are read once."""
    reads: list[str] = []

    class Counting(MemoryStore):
        async def by_id(self, context: ApiContext, schema: Schema, object_id: str) -> Any:
            reads.append(object_id)
            return await super().by_id(context, schema, object_id)

    authors = schema("author", {"name": Field(type="string")}, store=Counting())
    served = kit(schema("book", {"authors": Field(type="array[reference[author]]")}), authors)
    await served.post("/v3/authors", {"name": "ada"})
    assert (await served.post("/v3/books", {"authors": ["ada"] * 500})).status == 201
    assert reads == ["ada"]
    answer = await served.post("/v3/books", {"authors": [f"a{number}" for number in range(101)]})
    assert answer.error == (422, "InvalidBodyContent", None)


# ----------------------------------------------------------- authentication
async def test_requests_without_a_user_are_refused() -> None:
    """A request without a user is a 401."""

    async def authenticate(request: Any) -> UserInfo | None:
        name = request.header("authorization").removeprefix("Bearer ")
        return UserInfo(username=name) if name else None

    async def who(context: ApiContext, next_handler: NextHandler) -> RequestResult:
        assert context.user is not None
        return {"user": context.user.username}

    served = kit(schema("book", {}, list_handler=who), options=NormanOptions(authenticate=authenticate))
    assert (await served.get("/v3/books")).error == (401, "Unauthorized", None)
    assert (await served.get("/v3/nothing")).error == (401, "Unauthorized", None)
    assert (await served.get("/v3/books", authorization="Bearer ada")).body == {"user": "ada"}


async def test_requests_do_not_disturb_each_other() -> None:
    """Concurrent requests each get their own response."""
    served = await shelf(10)
    answers = await asyncio.gather(*(served.get(f"/v3/books/b{n % 10:03}") for n in range(100)))
    assert [answer.body["id"] for answer in answers] == [f"b{n % 10:03}" for n in range(100)]


async def test_the_responses_of_a_user_share_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user whose clients do not read gets 429 for new requests; others do not. Errors count for their user too."""

    async def authenticate(request: HttpRequest) -> UserInfo:
        return UserInfo(username=request.header("x-user"))

    served = kit(schema("book", {}), options=NormanOptions(authenticate=authenticate))
    unread = UnreadBytes(10)
    monkeypatch.setattr(server_module, "UNREAD", unread)
    unread.hold("ann", b"x" * 10)
    for user, url, status in (("ann", "/v3/books", 429), ("bob", "/v3/books", 200), ("bob", "/v3/unknown", 404)):
        response = await served.raw("GET", url, headers={"x-user": user})
        assert (response.status, response.user) == (status, user)
        assert (("retry-after", "1") in response.headers) == (status == 429)
