"""What Go clients really send, where the record lies beside this clone: protobuf bodies and the forms of requests."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server_caller import Caller

from envtest import Environment
from envtest.data.messages import message_for, reader, write_protobuf
from opsdk.apiserver.serializer.protobuf import ProtobufField, ProtobufReader, envelope
from opsdk.structured_merge.value import JsonObject

RECORD = Path(__file__).resolve().parents[3] / "shared/conformance/go-clients.json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
FRAMES = ProtobufReader(
    {
        "event": {1: ProtobufField("type", "string"), 2: ProtobufField("object", "raw")},
        "raw": {1: ProtobufField("raw", "bytes")},
    }.get
)
OWN = {"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink", "deletionTimestamp"}
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@pytest.fixture(scope="module")
def record() -> JsonObject:
    """The record."""
    if not RECORD.exists():
        pytest.skip("the recorded requests of Go clients are not beside this clone (../shared/conformance)")
    document: JsonObject = json.loads(RECORD.read_text())
    return document


def lowered(headers: dict[str, str]) -> dict[str, str]:
    """Names of headers as ASGI has them; compressed answers would have to be unpacked."""
    return {k.lower(): v for k, v in headers.items() if k.lower() != "accept-encoding"}


def without_own(obj: Any) -> Any:
    """An object without what differs from run to run."""
    if isinstance(obj, list):
        return [without_own(item) for item in obj]
    if isinstance(obj, str):
        return UID.sub("<uid>", obj)
    if not isinstance(obj, dict):
        return obj
    tree = {key: without_own(value) for key, value in obj.items()}
    if isinstance(tree.get("metadata"), dict):
        generated = {"name"} if tree["metadata"].get("generateName") else set()
        tree["metadata"] = {k: v for k, v in tree["metadata"].items() if k not in OWN | generated}
    for key in ("lastTransitionTime", "lastUpdateTime", "lastHeartbeatTime"):
        tree.pop(key, None)
    return tree


def missing(sent: Any, answered: Any, path: str = "") -> list[str]:
    """Where the answer does not have what was sent."""
    if isinstance(sent, dict) and isinstance(answered, dict):
        return [m for k, v in sent.items() if v not in ({}, None) for m in missing(v, answered.get(k), f"{path}.{k}")]
    if isinstance(sent, list) and isinstance(answered, list) and len(sent) == len(answered):
        pairs = enumerate(zip(sent, answered, strict=True))
        return [m for i, (a, b) in pairs for m in missing(a, b, f"{path}[{i}]")]
    return [] if sent == answered else [f"{path}: {sent!r} became {answered!r}"]


def decoded(env: Environment, entry: JsonObject) -> JsonObject:
    """A body as this server reads it."""
    path = entry["path"].partition("?")[0].strip("/").split("/")
    group, version, rest = ("", path[1], path[2:]) if path[0] == "api" else (path[1], path[2], path[3:])
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("finalize", "status"):
        rest = rest[2:]
    served = env.plane.core.resources.find(group, version, rest[0], rest[2] if len(rest) > 2 else "")
    assert served is not None, entry["path"]
    raw = base64.b64decode(entry["protobuf"])
    return served.model.decode(served.model.from_protobuf(raw)).obj


async def test_protobuf_bodies_decode_to_what_was_answered(record: JsonObject) -> None:
    """Each recorded protobuf body decodes to the fields in the real server's response."""
    wrong: list[str] = []
    read = 0
    async with Environment() as env:
        for entry in record["protobuf"]:
            answered = entry["status"] < 300 and entry["answer"].get("kind") != "Status"
            if entry["method"] not in ("POST", "PUT") or not answered:
                continue
            read += 1
            sent = decoded(env, entry)
            meta = {k: v for k, v in (sent.get("metadata") or {}).items() if k not in OWN}
            skipped = {"metadata"} if "/status" in entry["path"] else {"metadata", "status"}
            if "/status" in entry["path"]:
                skipped.add("spec")
            message = {"metadata": meta, **{k: v for k, v in sent.items() if k not in skipped}}
            wrong += [f"{entry['method']} {entry['path']}{m}" for m in missing(message, entry["answer"])]
    assert not wrong, "\n".join(wrong)
    assert read > 60


def test_bodies_are_written_as_they_were(record: JsonObject) -> None:
    """A recorded body that is read, written and read again is equal."""
    written = 0
    for entry in record["protobuf"]:
        unknown = envelope(base64.b64decode(entry["protobuf"]))
        if unknown.kind.endswith("Options"):
            continue
        tree = reader().read(unknown.raw, message_for(unknown.api_version, unknown.kind))
        again = envelope(write_protobuf({"apiVersion": unknown.api_version, "kind": unknown.kind, **tree}))
        result = reader().read(again.raw, message_for(again.api_version, again.kind))
        assert not [*missing(tree, result), *missing(result, tree)]
        written += 1
    assert written > 80


async def test_deletions_by_protobuf(record: JsonObject) -> None:
    """Options of deletions come as protobuf too."""
    async with Environment() as env:
        result = [e for e in record["protobuf"] if e["method"] == "DELETE"]
        for entry in result:
            served = env.plane.core.resources.find("", "v1", "configmaps")
            assert served is not None
            options = served.model.from_protobuf(base64.b64decode(entry["protobuf"]))
            assert options["kind"] == "DeleteOptions"
            finalizers = (entry["answer"].get("metadata") or {}).get("finalizers") or []
            if "foregroundDeletion" in finalizers:
                assert options["propagationPolicy"] == "Foreground"
    assert result


async def test_creations_by_protobuf_are_answered_alike(record: JsonObject) -> None:
    """A recorded protobuf create gets the real server's response, apart from times and uids."""
    wrong: list[str] = []
    created = 0
    async with Environment() as env:
        call = Caller(env)
        for entry in record["protobuf"]:
            if entry["method"] != "POST" or "dryRun" in entry["path"] or entry["status"] != 201:
                continue
            if entry["path"].endswith(("/binding", "/eviction")):
                continue  # they need the pod that the record had
            namespace = re.search(r"/namespaces/([^/?]+)/", entry["path"])
            if namespace:
                await call("POST", "/api/v1/namespaces", {"metadata": {"name": namespace.group(1)}})
            answer = await call("POST", entry["path"], base64.b64decode(entry["protobuf"]), **lowered(entry["headers"]))
            if answer.status == 409:
                continue
            created += 1
            if answer.status != 201:
                wrong.append(f"{entry['path']}: {answer.status} {answer.json.get('message')}")
                continue
            wrong += [f"{entry['path']}{m}" for m in differences(entry["answer"], answer.json)]
    assert not wrong, "\n".join(wrong)
    assert created > 15


ALLOCATED = re.compile(r"clusterIPs?|nodePort|token|expirationTimestamp")


def differences(wanted: JsonObject, found: JsonObject) -> list[str]:
    """Where two answers differ in more than what a server chooses."""
    both = (*missing(without_own(wanted), without_own(found)), *missing(without_own(found), without_own(wanted)))
    return [text for text in both if not ALLOCATED.search(text.partition(":")[0])]


async def test_forms_of_reading_are_served(record: JsonObject) -> None:
    """Every form of GET is answered in a media type that the client accepts, and never refused as a form."""
    async with Environment() as env:
        call = Caller(env)
        for form in record["forms"]:
            if form["method"] != "GET" or "watch=true" in form["example"] or "continue=" in form["example"]:
                continue
            answer = await call("GET", form["example"], **lowered(form["headers"]))
            assert answer.status in (200, 404), f"{form['example']}: {answer.status}"
            best = re.split("[;,]", form["headers"]["Accept"])[0] if answer.status == 200 else "application/"
            assert answer.headers["content-type"].startswith(("text/plain", best)), form


def lines(body: bytes) -> Iterator[tuple[str, JsonObject]]:
    """The events of a stream of JSON."""
    for line in body.splitlines():
        event = json.loads(line)
        yield event["type"], event["object"]


def framed(body: bytes) -> Iterator[tuple[str, JsonObject]]:
    """The events of a stream of protobuf."""
    while body:
        size = int.from_bytes(body[:4], "big")
        event, body = FRAMES.read(body[4 : 4 + size], "event"), body[4 + size :]
        unknown = envelope(base64.b64decode(event["object"]["raw"]))
        message = message_for(unknown.api_version, unknown.kind)
        yield event["type"], {"kind": unknown.kind, **reader().read(unknown.raw, message)}


async def test_forms_of_watching_are_served(record: JsonObject) -> None:
    """Streams of Go clients begin with what is there and end their first part with the bookmark that says so."""
    async with Environment() as env:
        call = Caller(env)
        for form in record["forms"]:
            if form["method"] != "GET" or "watch=true" not in form["example"]:
                continue
            answer = await call("GET", re.sub(r"Seconds=\d+", "Seconds=1", form["example"]), **lowered(form["headers"]))
            assert answer.status == 200, form
            events = list(framed(answer.raw) if form["headers"]["Accept"].startswith(PROTOBUF) else lines(answer.raw))
            first = next(obj for kind, obj in events if kind == "BOOKMARK")
            assert first["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}, form
            partial = "PartialObjectMetadata" in form["headers"]["Accept"]
            assert {obj["kind"] == "PartialObjectMetadata" for _, obj in events} == {partial}, form


async def test_forms_of_writing_are_served(record: JsonObject) -> None:
    """No recorded media type, parameter or method of a write is rejected; invalid objects get a Status."""
    async with Environment() as env:
        call = Caller(env)
        for form in record["forms"]:
            if form["method"] == "GET":
                continue
            proto = form["headers"]["Content-Type"].endswith("protobuf")
            body = (
                next(base64.b64decode(e["protobuf"]) for e in record["protobuf"] if e["method"] == form["method"])
                if proto
                else b"{}"
            )
            answer = await call(form["method"], form["example"], body, **lowered(form["headers"]))
            assert answer.status in (200, 201, 400, 404, 409, 422), (
                f"{form['method']} {form['example']}: {answer.status}"
            )
            if answer.status >= 400:
                assert answer.json["kind"] == "Status"
                assert "could not find the requested resource" not in answer.json["message"], form
