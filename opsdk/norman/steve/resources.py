"""Converts objects, collections and errors to the form of the API. Pure.

Upstream: github.com/rancher/apiserver/pkg/writer/encoding.go, pkg/types/types.go;
github.com/rancher/steve/pkg/resources/common/formatter.go, pkg/stores/partition/store.go (ToAPI)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

import msgspec

from opsdk.http.server.request_rules import query_pairs
from opsdk.norman.codes import as_norman_error, error_fields
from opsdk.norman.collections.access_set import AccessSet
from opsdk.norman.collections.indexed_list import Counts, IndexedPage
from opsdk.norman.mappers.paths import ABSENT, get_value, put_value
from opsdk.norman.steve.cluster_schemas import SteveSchema
from opsdk.norman.steve.parameters import ListParameters
from opsdk.norman.steve.printer_fields import RESERVED, undecorate
from opsdk.rest.request import resource_path
from opsdk.structured_merge.value import JsonObject


class SteveUrls(msgspec.Struct, frozen=True):
    """URLs of one request.

    Attributes:
        root: scheme and host, such as ``https://example.org``; behind a proxy the ones of the client.
        prefix: of the API, such as ``/v1``.
        current: the URL of the request.
    """

    root: str
    prefix: str = "/v1"
    current: str = ""

    @property
    def base(self) -> str:
        """The URL of the API."""
        return f"{self.root}{self.prefix}"

    def continued(self, token: str = "") -> str:
        """Return the URL of the request for another part of the list; without a token, of the first one.

        >>> SteveUrls("http://localhost", current="http://localhost/v1/pods?continue=a&limit=9").continued("b")
        'http://localhost/v1/pods?limit=9&continue=b'
        """
        path, _, query = self.current.partition("?")
        pairs = [pair for pair in query_pairs(query) if pair[0] != "continue"]
        pairs += [("continue", token)] if token else []
        return f"{path}?{urlencode(pairs)}" if pairs else path

    def collection(self, schema: SteveSchema) -> str:
        """Return the URL of all objects of a type."""
        return f"{self.base}/{schema.plural_name}"

    def resource(self, schema: SteveSchema, identity: str) -> str:
        """Return the URL of an object.

        >>> pod = SteveSchema(id="pod", plural_name="pods", group="", version="v1", kind="Pod", resource="pods",
        ...                   namespaced=True)
        >>> SteveUrls("http://localhost").resource(pod, "default/a")
        'http://localhost/v1/pods/default/a'
        """
        return f"{self.collection(schema)}/{quote(identity)}"

    def kubernetes(self, schema: SteveSchema, namespace: str, name: str) -> str:
        """Return the URL of an object in the API of the cluster."""
        return f"{self.root}{resource_path(schema.group, schema.version, schema.resource, namespace, name)}"


class ResourceLinks:
    """The id, links and actions of the objects of one type, for one user and one request.

    The permissions are looked up once, not for each object.

    Args:
        schema: the type.
        access: the permissions of the user.
        urls: of the request.
    """

    def __init__(self, schema: SteveSchema, access: AccessSet, urls: SteveUrls) -> None:
        self._schema = schema
        self._urls = urls
        self._links = [
            (link, access.visible(verb, schema.group, schema.resource, namespaced=schema.namespaced))
            for link, verb in (("update", "update"), ("patch", "patch"), ("remove", "delete"), ("view", "get"))
            if verb in schema.verbs
        ]

    def of(self, namespace: str, name: str) -> JsonObject:
        """Return the fields of the API for an object: links only for permitted requests.

        >>> pod = SteveSchema(id="pod", plural_name="pods", group="", version="v1", kind="Pod", resource="pods",
        ...                   namespaced=True)
        >>> ResourceLinks(pod, AccessSet.of([]), SteveUrls("http://localhost")).of("default", "a")["links"]
        {'self': 'http://localhost/v1/pods/default/a'}
        """
        identity = f"{namespace}/{name}" if namespace else name
        own = self._urls.resource(self._schema, identity)
        links = {"self": own}
        for link, granted in self._links:
            if granted.everything or granted.contains(namespace, name):
                links[link] = own if link != "view" else self._urls.kubernetes(self._schema, namespace, name)
        actions = {action: f"{own}?action={quote(action)}" for action in self._schema.actions}
        return {"id": identity, "type": self._schema.id, "links": links, "actions": actions}

    def add_to(self, encoded: bytes, namespace: str, name: str) -> bytes:
        """Return an encoded object with its fields of the API."""
        return msgspec.json.encode(self.of(namespace, name))[:-1] + b"," + encoded[1:]


def own_fields(tree: JsonObject) -> JsonObject:
    """Return the fields of an object; those with names of the API get an underscore in front.

    >>> own_fields({"kind": "Secret", "type": "Opaque"})
    {'kind': 'Secret', '_type': 'Opaque'}
    """
    return {f"_{key}" if key in RESERVED else key: value for key, value in tree.items()}


def to_resource(tree: JsonObject, links: ResourceLinks) -> JsonObject:
    """Return an object as the API shows it.

    Args:
        tree: the object, decorated.
        links: of the request.
    """
    metadata = tree["metadata"]
    return {**links.of(metadata.get("namespace") or "", metadata["name"]), **own_fields(tree)}


def from_resource(body: JsonObject) -> JsonObject:
    """Return the object of a request body, as the cluster reads it.

    >>> from_resource({"id": "a", "type": "secret", "_type": "Opaque", "metadata": {"name": "a", "state": {}}})
    {'type': 'Opaque', 'metadata': {'name': 'a'}}
    """
    fields = {key: value for key, value in body.items() if key not in RESERVED}
    restored = {key.removeprefix("_") if key[1:] in RESERVED else key: value for key, value in fields.items()}
    return undecorate(restored)


def collection(
    schema: SteveSchema,
    page: IndexedPage,
    urls: SteveUrls,
    parameters: ListParameters,
) -> JsonObject:
    """Return the body of a list without its objects; see `with_data`.

    Args:
        schema: the type of the objects.
        page: counts and revision.
        urls: of the request.
        parameters: of the request.
    """
    body: JsonObject = {
        "type": "collection",
        "links": {"self": urls.current},
        "createTypes": {schema.id: urls.collection(schema)} if "POST" in schema.collection_methods else {},
        "actions": {},
        "resourceType": schema.id,
        "revision": str(page.revision),
        "count": page.count,
    }
    if pages := parameters.pages(page):
        body["pages"] = pages
    token = parameters.next_token(page)
    if token or parameters.continue_token:
        pagination: JsonObject = {"limit": parameters.limit, "first": urls.continued(), "partial": True}
        if token:
            body["continue"] = token
            pagination["next"] = urls.continued(token)
        body["pagination"] = pagination
    if page.summary:
        body["summary"] = [
            {"property": item.property, "counts": {value: {"total": count} for value, count in item.counts.items()}}
            for item in page.summary
        ]
    return body


def with_data(body: JsonObject, data: Sequence[bytes]) -> bytes:
    """Return the body of a list as JSON, with its encoded objects.

    >>> with_data({"type": "collection"}, [b'{"id":"a"}', b'{"id":"b"}'])
    b'{"type":"collection","data":[{"id":"a"},{"id":"b"}]}'
    """
    return msgspec.json.encode(body)[:-1] + b',"data":[' + b",".join(data) + b"]}"


def plain_collection(kind: str, data: Sequence[JsonObject], urls: SteveUrls) -> JsonObject:
    """Return the body of a list of items that are not cluster objects, such as schemas."""
    links = {"self": urls.current}
    body: JsonObject = {"type": "collection", "links": links, "actions": {}, "resourceType": kind}
    return {**body, "count": len(data), "data": list(data)}


def count_resource(counts: Mapping[str, Counts], urls: SteveUrls) -> JsonObject:
    """Return the object of ``/v1/counts``: for each type the number of objects, in all and by namespace."""
    body = {
        identity: {
            "summary": {"count": counted.count, **({"states": dict(counted.states)} if counted.states else {})},
            "namespaces": {name: {"count": number} for name, number in counted.namespaces.items()},
        }
        for identity, counted in sorted(counts.items())
    }
    return {"id": "count", "type": "count", "links": {"self": f"{urls.base}/counts/count"}, "counts": body}


def select_fields(resource: JsonObject, query: Sequence[tuple[str, str]]) -> JsonObject:
    """Return a resource with the fields of the parameters ``include``, ``exclude`` and ``excludeValues``.

    It may change its argument.

    >>> secret = {"id": "a", "metadata": {"name": "a", "labels": {"l": "x"}}, "data": {"key": "dG9w"}}
    >>> select_fields(secret, [("exclude", "metadata.labels"), ("excludeValues", "data")])
    {'id': 'a', 'metadata': {'name': 'a'}, 'data': {'key': ''}}

    Upstream: github.com/rancher/steve/pkg/resources/common/formatter.go (includeFields, excludeFields, excludeValues)
    """
    included = [value.split(".") for name, value in query if name == "include"]
    if included:
        api_fields: JsonObject = {name: resource[name] for name in RESERVED if name in resource}
        for path in included:
            value = get_value(resource, path)
            if value is not ABSENT:
                put_value(api_fields, path, value)
        resource = api_fields
    for name, text in query:
        *outer, last = text.split(".")
        parent = get_value(resource, outer)
        if not isinstance(parent, dict):
            continue
        if name == "exclude":
            parent.pop(last, None)
        elif name == "excludeValues" and isinstance(parent.get(last), dict):
            parent[last] = dict.fromkeys(parent[last], "")
    return resource


FIELD_PARAMETERS = frozenset({"include", "exclude", "excludeValues"})
"""The parameters of `select_fields`."""


def error_body(error: Exception) -> JsonObject:
    """Return the body of an error.

    >>> error_body(ZeroDivisionError())["code"]
    'ServerError'
    """
    return {"type": "error", "links": {}, "actions": {}, **error_fields(as_norman_error(error))}
