"""Invalid requests to a whole server: the responses are kube-apiserver's."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from server_caller import Answer, Caller

from envtest.environment import Environment

MAPS = "/api/v1/namespaces/default/configmaps"
LARGE = '"18446744073709551616"'
NO_RESOURCE = (404, "the server could not find the requested resource")
NO_METHOD = (405, "the server does not allow this method on the requested resource")
NO_PAGE = (404, "404 page not found\n")


@asynccontextmanager
async def serving() -> AsyncIterator[Caller]:
    """A server with one configmap, ``a``."""
    async with Environment() as env:
        call = Caller(env)
        assert (await call("POST", MAPS, {"metadata": {"name": "a"}, "data": {"x": "y"}})).status == 201
        yield call


def told(answer: Answer) -> tuple[int, str]:
    """Code and message; text where it is not a Status."""
    if not answer.headers.get("content-type", "").startswith("application/json"):
        return answer.status, answer.raw.decode()
    return answer.status, answer.json.get("message", "") if answer.status >= 400 else ""


async def assert_responses(cases: list[tuple[Any, ...]]) -> None:
    """Method, URL, what is to be answered; then body and headers, where there are any."""
    async with serving() as call:
        for method, url, expected, *rest in cases:
            body, headers = (*rest, None, {})[:2] if len(rest) < 2 else rest
            assert told(await call(method, url, body, **(headers or {}))) == expected, (method, url, rest)


async def test_unsupported_methods_are_405_except_on_pages() -> None:
    """A resource path rejects methods that it does not support with 405; /healthz accepts any method."""
    await assert_responses(
        [
            *((method, MAPS, NO_METHOD) for method in ("OPTIONS", "BREW", "PUT", "PATCH", "TRACE", "CONNECT")),
            *((method, f"{MAPS}/a", NO_METHOD) for method in ("OPTIONS", "BREW", "POST")),
            *(
                (method, path, NO_METHOD)
                for method in ("POST", "OPTIONS")
                for path in ("/api", "/apis/apps", "/version")
            ),
            *((method, "/healthz", (200, "ok")) for method in ("GET", "POST", "OPTIONS")),
        ]
    )


async def test_head_is_405_on_resources_and_empty_on_pages() -> None:
    """HEAD is 405 on resources and discovery; on /healthz it returns the status without a body."""
    async with serving() as call:
        for path, status in ((MAPS, 405), (f"{MAPS}/a", 405), ("/api", 405), ("/version", 405), ("/healthz", 200)):
            answer = await call("HEAD", path)
            assert (answer.status, answer.raw) == (status, b""), path


async def test_only_trailing_slashes_are_ignored() -> None:
    """Trailing and empty namespace segments are ignored; other duplicate slashes and ``..`` give 404."""
    await assert_responses(
        [
            ("GET", "/api/v1/pods/", (200, "")),
            ("GET", "/api/v1/pods//", (200, "")),
            ("GET", "/api/v1/namespaces//pods", (200, "")),
            ("GET", "//api/v1/pods", NO_PAGE),
            ("GET", "/api//v1/pods", NO_RESOURCE),
            ("GET", "/api/v1//pods", NO_RESOURCE),
            ("GET", "/api/v1/namespaces/default//pods", NO_RESOURCE),
            ("GET", "/api/v1/../v1/pods", NO_RESOURCE),
            ("GET", f"{MAPS}/a/b", NO_RESOURCE),
            ("GET", f"{MAPS}/a/b/c", NO_RESOURCE),
            ("GET", "/api/v1/nosuch", NO_RESOURCE),
            ("GET", "/api/v2/pods", NO_RESOURCE),
            ("GET", "/apis/apps/v9/deployments", NO_RESOURCE),
            ("GET", "/apis/nope/v1/things", NO_PAGE),
            ("GET", "/apis//v1/pods", NO_PAGE),
            ("GET", "/healthz/", NO_PAGE),
            ("GET", "/healthz//ping", NO_PAGE),
            ("GET", "/openapi/v2/", NO_PAGE),
            ("GET", "/nowhere", NO_PAGE),
            ("GET", "*", NO_PAGE),
            ("GET", "/version/", (200, "")),
            ("GET", "/apis/apps/", (200, "")),
        ]
    )


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
async def test_invalid_path_segments_are_rejected(method: str) -> None:
    """A name that is not a valid path segment is rejected before any lookup."""
    async with serving() as call:
        for name, reason in (("..", "may not be '..'"), (".", "may not be '.'"), ("a%", "may not contain '%'")):
            headers = {"content_type": "application/merge-patch+json"} if method == "PATCH" else {}
            body = {"metadata": {"name": name}} if method in ("PUT", "PATCH") else None
            answer = await call(method, f"{MAPS}/{name}", body, **headers)
            assert told(answer) == (400, f'Name parameter invalid: "{name}": {reason}')


NO_VERSION = "invalid resource version: resourceVersion"


async def test_list_options() -> None:
    """Numbers in list options have 64 bits; revisions are unsigned numbers."""
    too_long = "9" * 5000
    await assert_responses(
        [
            ("GET", f"{MAPS}?limit=", (400, 'strconv.ParseInt: parsing "": invalid syntax')),
            ("GET", f"{MAPS}?limit=x", (400, 'strconv.ParseInt: parsing "x": invalid syntax')),
            ("GET", f"{MAPS}?limit=1_0", (400, 'strconv.ParseInt: parsing "1_0": invalid syntax')),
            ("GET", f"{MAPS}?limit=+1", (400, 'strconv.ParseInt: parsing " 1": invalid syntax')),
            ("GET", f"{MAPS}?limit=%2B1", (200, "")),
            ("GET", f"{MAPS}?limit=-1", (200, "")),
            (
                "GET",
                f"{MAPS}?limit=9223372036854775808",
                (400, 'strconv.ParseInt: parsing "9223372036854775808": value out of range'),
            ),
            ("GET", f"{MAPS}?limit={too_long}", (400, f'strconv.ParseInt: parsing "{too_long}": value out of range')),
            ("GET", f"{MAPS}?watch=1&timeoutSeconds=-1", (200, "")),
            (
                "GET",
                f"{MAPS}?resourceVersion=-1",
                (400, f'{NO_VERSION}: Invalid value: "-1": strconv.ParseUint: parsing "-1": invalid syntax'),
            ),
            (
                "GET",
                f"{MAPS}?resourceVersion=18446744073709551616",
                (400, f"{NO_VERSION}: Invalid value: {LARGE}: strconv.ParseUint: parsing {LARGE}: value out of range"),
            ),
            ("GET", f"{MAPS}?labelSelector=%zz", (200, "")),
            ("GET", f"{MAPS}?unknown=x&&=&a", (200, "")),
            ("DELETE", f"{MAPS}/a?gracePeriodSeconds=x", (400, 'strconv.ParseInt: parsing "x": invalid syntax')),
        ]
    )


NO_TOKEN = "invalid continue token: continue key is not valid: "


async def test_continue_tokens_are_validated_first() -> None:
    """A continue token is validated first; one from a future revision times out."""

    def token(raw: bytes) -> str:
        return base64.urlsafe_b64encode(raw).decode().rstrip("=")

    cases: list[tuple[str, tuple[int, str]]] = [
        ("x", (400, f"{NO_TOKEN}illegal base64 data at input byte 0")),
        ("AAAA!", (400, f"{NO_TOKEN}illegal base64 data at input byte 4")),
        (token(b"[]"), (400, f"{NO_TOKEN}json: cannot unmarshal array into Go value of type storage.continueToken")),
        (token(b"null"), (400, f"{NO_TOKEN}server does not recognize this encoded version ")),
        (
            token(b'{"v":"meta.k8s.io/v1","rv":"5","start":"x"}'),
            (400, f"{NO_TOKEN}json: cannot unmarshal string into Go struct field continueToken.rv of type int64"),
        ),
        (token(b'{"v":"meta.k8s.io/v1","rv":5,"start":"../x"}'), (400, f"{NO_TOKEN}../x")),
        (token(b'{"v":"meta.k8s.io/v1","rv":-1,"start":"x"}'), (200, "")),
    ]
    await assert_responses([("GET", f"{MAPS}?limit=1&continue={text}", expected) for text, expected in cases])
    async with serving() as call:
        future = token(b'{"v":"meta.k8s.io/v1","rv":999999,"start":"x"}')
        status, message = told(await call("GET", f"{MAPS}?limit=1&continue={future}"))
        assert (status, message.partition(",")[0]) == (504, "Timeout: Too large resource version: 999999")
        assert told(await call("GET", f"{MAPS}?watch=1&continue={future}"))[0] == 422


async def test_a_list_goes_on_behind_the_last_key() -> None:
    """A continue token works for any list: it does not contain the namespace."""
    async with serving() as call:
        for name in ("b", "c"):
            await call("POST", MAPS, {"metadata": {"name": name}})
        first = (await call("GET", f"{MAPS}?limit=2")).json["metadata"]["continue"]
        rest = (await call("GET", f"{MAPS}?limit=2&continue={first}")).json["items"]
        assert [item["metadata"]["name"] for item in rest] == ["c"]
        assert b'"start":"b\\u0000"' in base64.urlsafe_b64decode(first + "==")


async def test_label_selectors() -> None:
    """Invalid label selectors have the parser's messages; Gt and Lt need 64-bit integers."""
    parse = "unable to parse requirement: "
    number = "for 'Gt', 'Lt' operators, the value must be an integer"
    await assert_responses(
        [
            ("GET", f"{MAPS}?labelSelector=p+in+(", (400, f"{parse}found '', expected: ',', ')' or identifier")),
            (
                "GET",
                f"{MAPS}?labelSelector=n>{'9' * 20}",
                (400, f'{parse}values[0]: Invalid value: "{"9" * 20}": {number}'),
            ),
            ("GET", f"{MAPS}?labelSelector=n>5", (200, "")),
            (
                "GET",
                f"{MAPS}?fieldSelector=metadata.name=\\x",
                (400, r"invalid field selector: invalid escape sequence: \x"),
            ),
        ]
    )


async def test_the_timeout_parameter_is_a_go_duration() -> None:
    """The parameter ``timeout`` must be a Go duration."""
    await assert_responses(
        [
            ("GET", f"{MAPS}?timeout={text}", (400, f"invalid timeout specified in the request URL - time: {reason}"))
            for text, reason in (
                ("x", 'invalid duration "x"'),
                ("1", 'missing unit in duration "1"'),
                ("1y", 'unknown unit "y" in duration "1y"'),
            )
        ]
    )
    await assert_responses(
        [("GET", f"{MAPS}?timeout={text}", (200, "")) for text in ("1s", "-1s", "0", "1h1.5m", "")]
        + [("GET", f"{MAPS}?watch=1&timeoutSeconds=1&timeout=x", (200, ""))]
    )


UNKNOWN = "the body of the request was in an unknown format - accepted media types include: "


async def test_media_types_are_matched_as_upstream_does() -> None:
    """Object media types may have parameters; patch media types must match exactly."""
    objects = f"{UNKNOWN}application/json, application/yaml, application/vnd.kubernetes.protobuf"
    patches = "415: Unsupported Media Type"
    bad = ("text/plain", "application/cbor", "garbage", "application/*", "application/json,text/plain", "; x",
           "application/json; x", "application/json;;", 'application/json; a="b',
           "application/merge-patch+json")  # fmt: skip
    good = (
        "APPLICATION/JSON",
        "application/json; charset=utf-16",
        "application/json;",
        'application/json; a="b c"',
        "",
    )
    body = b'{"metadata":{"name":"a"}}'
    await assert_responses(
        [
            *(("PUT", f"{MAPS}/a", (415, objects), body, {"content_type": media}) for media in bad),
            *(("DELETE", f"{MAPS}/nope", (415, objects), b"{}", {"content_type": media}) for media in bad),
            *(("PUT", f"{MAPS}/a", (200, ""), body, {"content_type": media}) for media in good),
            *(
                ("PATCH", f"{MAPS}/a", (415, patches), b"{}", {"content_type": media})
                for media in ("", "application/json", "application/yaml", "APPLICATION/MERGE-PATCH+JSON", " a/b")
            ),
            ("PATCH", f"{MAPS}/a", (200, ""), b"{}", {"content_type": "application/merge-patch+json; charset=x"}),
        ]
    )


UNRECOGNIZED = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; "
UNRECOGNIZED += "json parse error: "
STRUCT = "json: cannot unmarshal {} into Go struct field .{} of type string"
CANNOT = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal '


async def test_json_bodies_are_checked_by_parser_and_kind() -> None:
    """A body that is not a JSON object fails in the parser, and one of another kind in the decoder."""
    nameless = (422, 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required')
    await assert_responses(
        [
            ("POST", MAPS, (400, f"{UNRECOGNIZED}unexpected end of JSON input (<empty>)")),
            ("POST", MAPS, nameless, b"null"),
            ("POST", MAPS, nameless, b"{}"),
            ("POST", MAPS, (400, f"{UNRECOGNIZED}invalid character 'x' after top-level value ({{}}x)"), b"{}x"),
            (
                "POST",
                MAPS,
                (400, f"{UNRECOGNIZED}invalid character '\\x1f' looking for beginning of value (1f8b08)"),
                b"\x1f\x8b\x08",
                {"content_encoding": "gzip"},
            ),
            (
                "POST",
                MAPS,
                (400, f"{UNRECOGNIZED}invalid character 'N' looking for beginning of value ({{\"a\":NaN}})"),
                b'{"a":NaN}',
            ),
            (
                "POST",
                MAPS,
                (400, f"{UNRECOGNIZED}{STRUCT.format('number', 'apiVersion')} ({{\"apiVersion\":1}})"),
                b'{"apiVersion":1}',
            ),
            (
                "POST",
                MAPS,
                (400, f"{UNRECOGNIZED}{STRUCT.format('array', 'kind')} ({{\"kind\":[]}})"),
                b'{"kind":[]}',
            ),
            ("POST", MAPS, (400, f"{CANNOT}number into Go struct field ObjectMeta.metadata.name of type string"),
             b'{"metadata":{"name":1}}'),
            ("POST", MAPS, (400, f"{CANNOT}array into Go struct field ConfigMap.data of type map[string]string"),
             b'{"data":[]}'),
            ("POST", MAPS, (413, "Request entity too large: limit is 3145728"), b" " * (3 << 20) + b"{}"),
        ]
    )  # fmt: skip


async def test_strings_that_are_no_unicode() -> None:
    """Invalid UTF-8 and lone surrogates become replacement characters; NULs stay."""
    async with serving() as call:
        for name, raw, expected in (("b", b"\xff", "\ufffd"), ("c", b"\\ud800", "\ufffd"), ("d", b"\\u0000", "\x00")):
            body = b'{"metadata":{"name":"' + name.encode() + b'"},"data":{"x":"' + raw + b'"}}'
            assert (await call("POST", MAPS, body)).json["data"] == {"x": expected}
            assert (await call("GET", f"{MAPS}/{name}")).json["data"] == {"x": expected}
        bom = await call("POST", MAPS, b"\xef\xbb\xbf{}")
        assert "invalid character '\\xef' looking for beginning of value" in bom.json["message"]


async def test_delete_options() -> None:
    """Fields of a wrong type in delete options are errors."""
    prefix = "json: cannot unmarshal "
    await assert_responses(
        [
            ("DELETE", f"{MAPS}/a", (400, f"{prefix}{what} into Go struct field {field} of type {expected}"), body)
            for body, what, field, expected in (
                (b'{"gracePeriodSeconds":"x"}', "string", "DeleteOptions.gracePeriodSeconds", "int64"),
                (b'{"gracePeriodSeconds":1.5}', "number 1.5", "DeleteOptions.gracePeriodSeconds", "int64"),
                (b'{"gracePeriodSeconds":true}', "bool", "DeleteOptions.gracePeriodSeconds", "int64"),
                (b'{"propagationPolicy":[]}', "array", "DeleteOptions.propagationPolicy", "v1.DeletionPropagation"),
                (b'{"orphanDependents":"x"}', "string", "DeleteOptions.orphanDependents", "bool"),
                (b'{"dryRun":"All"}', "string", "DeleteOptions.dryRun", "[]string"),
                (b'{"dryRun":[1]}', "number", "DeleteOptions.dryRun", "string"),
                (b'{"preconditions":[1]}', "array", "DeleteOptions.preconditions", "v1.Preconditions"),
                (b'{"preconditions":{"uid":1}}', "number", "Preconditions.preconditions.uid", "types.UID"),
            )
        ]
    )


async def test_what_asks_to_delete() -> None:
    """A delete body has the right kind or none; query parameters count only without a body."""
    meta = "couldn't get version/kind; json parse error: json: cannot unmarshal "
    struct = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
    invalid = 'DeleteOptions.meta.k8s.io "" is invalid: '
    policies = 'Unsupported value: "": supported values: "Foreground", "Background", "Orphan", "nil"'
    listed = "resourceVersionMatch is forbidden unless resourceVersion is provided"
    await assert_responses(
        [
            ("DELETE", f"{MAPS}/a", (400, f"{meta}array into Go value of type {struct}"), b"[]"),
            (
                "DELETE",
                f"{MAPS}/a",
                (400, f"{meta}number into Go struct field .apiVersion of type string"),
                {"apiVersion": 1},
            ),
            ("DELETE", f"{MAPS}/a", (400, "unexpected GroupVersion string: a/b/c"), {"apiVersion": "a/b/c"}),
            (
                "DELETE",
                f"{MAPS}/a",
                (400, "converting (v1.Status) to (v1.DeleteOptions): unknown conversion"),
                {"apiVersion": "v1", "kind": "Status"},
            ),
            ("DELETE", f"{MAPS}/a?propagationPolicy=", (422, f"{invalid}propagationPolicy: {policies}")),
            (
                "DELETE",
                f"{MAPS}/a?dryRun=",
                (422, f'{invalid}dryRun: Unsupported value: [""]: supported values: "All"'),
            ),
            (
                "DELETE",
                f"{MAPS}?resourceVersionMatch=Exact",
                (422, f'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: {listed}'),
            ),
            ("DELETE", f"{MAPS}/a", (200, ""), b"null"),
        ]
    )
    async with serving() as call:
        assert (await call("DELETE", f"{MAPS}/a?uid=x")).status == 409
        assert (await call("DELETE", f"{MAPS}/a?resourceVersion=1", {})).status == 200


async def test_a_delete_that_waits_is_202() -> None:
    """A delete that waits for finalizers returns 202 if the request disables orphaning."""
    async with serving() as call:
        await call("POST", MAPS, {"metadata": {"name": "b", "finalizers": ["example.com/x"]}})
        assert (await call("DELETE", f"{MAPS}/b", {"orphanDependents": False})).status == 202
        assert (await call("DELETE", f"{MAPS}/a?orphanDependents=")).json["metadata"]["finalizers"] == ["orphan"]


async def test_headers_that_would_change_the_request_do_not() -> None:
    """Method override headers have no effect."""
    async with serving() as call:
        answer = await call("GET", f"{MAPS}/a", x_http_method_override="DELETE", x_method_override="DELETE")
        assert answer.json["metadata"]["name"] == "a"
        assert (await call("GET", f"{MAPS}/a")).status == 200


async def test_readiness_fails_first() -> None:
    """A server that is stopping fails its readiness check while it still serves."""
    async with Environment() as env:
        call = Caller(env)
        assert told(await call("GET", "/readyz")) == (200, "ok")
        env.server.well_known.stopping = True
        status, text = told(await call("GET", "/readyz"))
        assert status == 500
        assert text.endswith("[-]shutdown failed: reason withheld\nreadyz check failed\n")
        assert told(await call("GET", "/readyz?exclude=shutdown"))[0] == 200
        assert told(await call("GET", "/readyz/shutdown"))[0] == 500
        assert told(await call("GET", "/livez")) == (200, "ok")
