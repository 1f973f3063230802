"""Objects with every field set go through the server of each version unchanged."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from server_caller import JSON, MERGE, Caller
from slow_cases import mostly_slow

from envtest.data.messages import message_of, reader, write_protobuf
from envtest.data.resources import ServedResourceRow, rows
from envtest.data.schemas import types
from envtest.data.versions import VERSIONS
from envtest.environment import Environment
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.registry.strategy import Strategy
from opsdk.apiserver.serializer.protobuf import envelope
from opsdk.structured_merge.value import JsonObject
from tests.envtest.versions.whole_objects import NOTHING, WITHOUT_NUMBER, WholeObjects

LABELS = {"resource.kubernetes.io/admin-access": "true"}
PROTOBUF, YAML = "application/vnd.kubernetes.protobuf", "application/yaml"


def stored_kinds(version: str) -> list[ServedResourceRow]:
    """Return the kinds that a version stores as they are sent."""
    return [
        row
        for row in rows(version)
        if not row.info.subresource
        and {"create", "list"} <= set(row.verbs)
        and (row.info.group, row.info.version) != ("autoscaling", "v1")  # stored in its second version
    ]


KINDS = [(version, row) for version in VERSIONS for row in stored_kinds(version)]
CASES = mostly_slow(
    [
        # What 1.35 differs in, 1.36 and 1.37 have too.
        pytest.param(
            version,
            row,
            id=f"{version}-{row.info.group}/{row.info.resource}",
            marks=[pytest.mark.deep] if version == "1.35" and place % 45 else [],
        )
        for place, (version, row) in enumerate(KINDS)
    ],
    every=45,
)


class Anything(Strategy):
    """A strategy without rules: the codecs are the subject."""

    def __init__(self, *, namespaced: bool) -> None:
        self.namespaced = namespaced
        self.allow_unconditional_update = True


class Bodies:
    """Encodes and decodes the bodies of one kind in three media types."""

    def __init__(self, version: str, row: ServedResourceRow) -> None:
        self.version = version
        self.name = types(version).name_of(row.info.group, row.info.version, row.info.kind) or ""

    def encode(self, obj: JsonObject, media: str) -> bytes:
        """Return an object as a client sends it."""
        if media == PROTOBUF:
            return write_protobuf(obj, self.version)
        return yaml.safe_dump(obj).encode() if media == YAML else json.dumps(obj).encode()

    def decode(self, raw: bytes, media: str) -> Any:
        """Return the object of a response."""
        if media == PROTOBUF:
            return reader(self.version).read(envelope(raw).raw, message_of(self.name))
        return yaml.safe_load(raw)


def without_rules(env: Environment, row: ServedResourceRow) -> None:
    """Let a server store objects of a kind without admission and rules."""
    admission = env.plane.core.admission
    for plugin in list(admission.plugins):
        admission.remove(plugin)
    served = env.plane.core.resources.find(row.info.group, row.info.version, row.info.resource)
    assert served is not None
    assert isinstance(served.storage, LocalStore)
    served.storage.strategy = Anything(namespaced=row.info.namespaced)


def content(obj: JsonObject) -> JsonObject:
    """Return an object without what the server sets."""
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}


@pytest.mark.parametrize(("version", "row"), CASES)
async def test_whole_objects_come_back(version: str, row: ServedResourceRow) -> None:
    """An object with every field set comes back equal, from and to JSON, YAML and protobuf bodies."""
    bodies = Bodies(version, row)
    info = row.info
    home = f"/api/{info.version}" if not info.group else f"/apis/{info.group}/{info.version}"
    url = f"{home}/namespaces/default/{info.resource}" if info.namespaced else f"{home}/{info.resource}"
    async with Environment(kubernetes=version) as env:
        without_rules(env, row)
        call = Caller(env)
        await call("PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": LABELS}}, content_type=MERGE)
        for number, media in enumerate((JSON, YAML, PROTOBUF)):
            sent = WholeObjects(version, without=WITHOUT_NUMBER if media == PROTOBUF else NOTHING).of(bodies.name)
            head = {"apiVersion": info.api_version, "kind": info.kind, "metadata": {"name": f"a{number}"}}
            created = await call("POST", url, bodies.encode({**head, **sent}, media), content_type=media, accept=JSON)
            assert created.status == 201, created.raw
            assert content(created.json) == sent
            in_protobuf = WholeObjects(version, without=WITHOUT_NUMBER, in_json=False).of(bodies.name)
            for accepted in (JSON, YAML, PROTOBUF):
                answer = await call("GET", f"{url}/a{number}", accept=accepted)
                assert answer.headers["content-type"] == accepted
                expected = in_protobuf if accepted == PROTOBUF else sent
                assert content(bodies.decode(answer.raw, accepted)) == expected


def test_the_objects_have_every_field() -> None:
    """The objects of a version have each of its kinds, and each field of the types that these reach."""
    counts = {}
    for version in VERSIONS:
        objects = WholeObjects(version)
        kinds = stored_kinds(version)
        for row in kinds:
            objects.of(Bodies(version, row).name)
        counts[version] = (len(kinds), len(objects.fields))
    assert counts == {"1.35": (57, 1961), "1.36": (59, 1998), "1.37": (63, 2119)}
