"""Decoders, each as a function of bytes that may raise nothing but the errors it is allowed."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from opsdk.cel.errors import CelError
from opsdk.errors import ApiError, CodecError, DecodeError, PatchError, TransportError, UsageError
from tests.fuzz.sockets import SEEDS, connection

Target = Callable[[bytes], object]


@dataclass(frozen=True)
class Decoder:
    """What is fuzzed, and with what it begins."""

    run: Target
    seeds: Sequence[bytes]


POD = (
    b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"a":"b"}},"spec":{"containers":[{"name":"c",'
    b'"image":"i","ports":[{"containerPort":80}],"env":[{"name":"A","value":"1"}]}]}}'
)
YAML = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {x: &y 'z', w: *y}\ndata:\n  k: |\n    v\n"


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _json(data: bytes) -> Any:
    from opsdk.apimachinery.serializer.documents import parse_json

    return parse_json(data).tree


# ------------------------------------------------------------------ documents
def document_json(data: bytes) -> object:
    from opsdk.apimachinery.serializer.documents import SyntaxProblemError, parse_json

    with suppress(SyntaxProblemError):
        return json.dumps(parse_json(data).tree, allow_nan=False)
    return None


def document_yaml(data: bytes) -> object:
    from opsdk.apimachinery.serializer.documents import SyntaxProblemError
    from opsdk.apimachinery.serializer.yaml_documents import parse_yaml

    with suppress(SyntaxProblemError):
        return parse_yaml(data).strict
    return None


def json_words(data: bytes) -> object:
    from opsdk.apimachinery.serializer.json_errors import first_fault

    return first_fault(data)


# ------------------------------------------------------------------ bodies of built-in kinds
@cache
def _models() -> Any:
    from envtest.plane.control_plane import ControlPlane

    return ControlPlane().core.resources


def protobuf(data: bytes) -> object:
    served = _models().find("", "v1", "pods")
    with suppress(CodecError, ApiError):
        return served.model.decode(served.model.from_protobuf(data)).obj
    return None


def typed_body(data: bytes) -> object:
    from opsdk.apimachinery.serializer.documents import SyntaxProblemError

    served = _models().find("", "v1", "pods")
    with suppress(SyntaxProblemError, DecodeError):
        tree = _json(data)
        if isinstance(tree, dict):
            return served.model.default(served.model.decode(tree).obj)
    return None


def patch(data: bytes) -> object:
    """Every sort of patch on a pod."""
    from opsdk.apimachinery.patch.json_patch import apply_json_patch
    from opsdk.apimachinery.patch.merge_patch import apply_merge_patch
    from opsdk.apimachinery.patch.strategic_merge_patch import apply_strategic
    from opsdk.apimachinery.serializer.documents import SyntaxProblemError

    pod = json.loads(POD)
    try:
        tree = _json(data)
    except SyntaxProblemError:
        return None
    with suppress(PatchError):
        if isinstance(tree, list):
            # Both callers in the product refuse other operations before.
            return apply_json_patch(pod, [operation for operation in tree if isinstance(operation, dict)])
        if isinstance(tree, dict):
            apply_merge_patch(pod, tree)
            return apply_strategic(pod, tree, _models().find("", "v1", "pods").model.shape)
    return None


def fields(data: bytes) -> object:
    from opsdk.apimachinery.serializer.documents import SyntaxProblemError
    from opsdk.structured_merge.fieldpath import FieldSet

    with suppress(SyntaxProblemError, DecodeError):
        tree = _json(data)
        if isinstance(tree, dict):
            result = FieldSet.from_fields_v1(tree)
            assert FieldSet.from_fields_v1(result.to_fields_v1()) == result
    return None


# ------------------------------------------------------------------ small languages
def selectors(data: bytes) -> object:
    from opsdk.apiserver.endpoints.selectors import parse_fields, parse_labels

    for parse in (parse_labels, parse_fields):
        with suppress(ApiError):
            parse(_text(data))
    return None


def accept(data: bytes) -> object:
    from opsdk.apiserver.endpoints.discovery import aggregated_clause
    from opsdk.apiserver.endpoints.negotiation import OBJECT_KINDS, negotiate

    aggregated_clause(_text(data))
    with suppress(ApiError):
        return negotiate(_text(data), OBJECT_KINDS)
    return None


def tokens(data: bytes) -> object:
    from opsdk.apiserver.endpoints.options import ContinueToken

    with suppress(ApiError):
        return ContinueToken.decode(_text(data))
    return None


def paths(data: bytes) -> object:
    from envtest.extensions.jsonpath import find

    return find(json.loads(POD), _text(data))


def schedules(data: bytes) -> object:
    from envtest.groups.batch.cron_schedule import ScheduleError, parse

    with suppress(ScheduleError):
        return parse(_text(data))
    return None


def times(data: bytes) -> object:
    from envtest.codec.timestamps import read_micro_time, read_time

    for read in (read_time, read_micro_time):
        with suppress(DecodeError):
            read(_text(data))
    return None


def quantities(data: bytes) -> object:
    from envtest.codec.quantities import canonical

    with suppress(DecodeError):
        return canonical(_text(data))
    return None


@cache
def _cel() -> Any:
    from opsdk.apiserver.expressions.environment import kubernetes_environment
    from opsdk.cel.types import DYN

    return kubernetes_environment().extend(variables={"x": DYN})


def cel(data: bytes) -> object:
    with suppress(CelError):
        return _cel().compile(_text(data)).run({"x": {"y": [1, "a", None]}}, limit=10_000).error
    return None


# ------------------------------------------------------------------ the client's side
def frames(data: bytes) -> object:
    """However a stream is cut, the same frames come out of it."""
    from opsdk.rest.frames import FrameSplitter, parse_frame

    whole, cut = FrameSplitter(), FrameSplitter()
    try:
        at_once = whole.feed(data)
        pieces = [frame for i in range(len(data)) for frame in cut.feed(data[i : i + 1])]
    except (CodecError, TransportError):
        return None
    assert at_once == pieces
    for frame in at_once:
        with suppress(CodecError):
            parse_frame(frame)
    return None


def answers(data: bytes) -> object:
    from opsdk.http.client.errors import TRANSPORT_ERRORS
    from opsdk.http.client.parser import ResponseParser

    reader = ResponseParser()
    with suppress(TransportError, UsageError, *TRANSPORT_ERRORS):  # the connection translates them
        reader.begin("GET")
        reader.feed(data)
        reader.eof()
        return reader.take()
    return None


PROTO = bytes.fromhex("6b3873000a090a02763112035 06f6412070a050a0170".replace(" ", "")) + b"\x1a\x00\x22\x00"


def durations(data: bytes) -> object:
    from opsdk.apiserver.endpoints.request_deadline import read_duration

    with suppress(ValueError):
        return read_duration(_text(data))
    return None


def queries(data: bytes) -> object:
    from opsdk.http.server.request_rules import query_pairs, read_target

    read_target(b"GET", data)
    return list(query_pairs(data.decode("latin-1")))


DECODERS = {
    "connection": Decoder(connection, SEEDS),
    "durations": Decoder(durations, [b"1h2m3.5s", b"-100ms", b"0"]),
    "queries": Decoder(queries, [b"a=b&c=%41+d;e&f", b"http://host/a%20b?c=d"]),
    "json": Decoder(document_json, [POD, b'{"a":[1,2.5,-3e7,null,true,"x\\u00e9"]}']),
    "json-words": Decoder(json_words, [POD, b"[1, 2"]),
    "yaml": Decoder(document_yaml, [YAML, POD]),
    "protobuf": Decoder(protobuf, [PROTO]),
    "typed": Decoder(typed_body, [POD]),
    "patch": Decoder(
        patch,
        [
            b'{"spec":{"containers":[{"name":"c","$patch":"delete"},{"name":"d"}],"$setElementOrder/containers":[{"name":"d"}]}}',
            b'[{"op":"add","path":"/metadata/labels/x","value":"y"},{"op":"test","path":"/kind","value":"Pod"}]',
        ],
    ),
    "fields": Decoder(fields, [b'{"f:spec":{".":{},"f:a":{},"k:{\\"name\\":\\"c\\"}":{"f:b":{}}},"f:x":{"v:1":{}}}']),
    "selectors": Decoder(selectors, [b"a=b,c!=d,e in (f,g),h notin (i),!j,k>1", b"metadata.name=a,status.phase!=b"]),
    "accept": Decoder(accept, [b"application/json;as=Table;v=v1;g=meta.k8s.io,application/yaml;q=0.5,*/*"]),
    "tokens": Decoder(tokens, [b"eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6NSwic3RhcnQiOiJhXHUwMDAwIn0"]),
    "jsonpath": Decoder(paths, [b'.spec.containers[?(@.name=="c")].image', b".metadata.labels['a']", b".spec.list[*]"]),
    "schedule": Decoder(schedules, [b"*/5 1-3 1,15 JAN-mar MON", b"@every 1h30m", b"@daily"]),
    "times": Decoder(times, [b"2024-01-02T03:04:05.000001Z", b"2024-02-29T23:59:59+01:00"]),
    "quantities": Decoder(quantities, [b"1.5Gi", b"100m", b"1e3", b"-5"]),
    "cel": Decoder(
        cel,
        [
            b"[1, 2].map(x, x * 2).exists(y, y > 3) ? 'a'.size() : {'k': 1}['k']",
            b"duration('1h') > x.?y",
            b"quantity('1Gi').isGreaterThan(x.y)",
            b"x.y.filter(i, type(i) == int).sum() + url('http://a/b').getPort() == timestamp('2024-01-01T00:00:00Z').getHours()",
            b"'%s %d'.format(['a', 1]).matches('^a.*$') && ip('10.0.0.1').family() == 4 && semver('1.2.3') < semver('2.0.0')",
        ],
    ),
    "frames": Decoder(frames, [b'{"type":"ADDED","object":{"kind":"Pod"}}\n{"type":"BOOKMARK","object":{}}\n']),
    "answers": Decoder(
        answers,
        [
            b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        ],
    ),
}
"""By name."""
