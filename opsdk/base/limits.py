"""The limits of everything that other programs send: one home, with upstream's defaults.

A server takes other limits with ``ServeOptions(limits=...)``. The limits of documents and patches are those of the
Kubernetes API, so that a document which one server accepts is not refused by another.
"""

from __future__ import annotations

from typing import Final

from opsdk.base.options import Options

KIB: Final = 1024
MIB: Final = 1024 * 1024


class Limits(Options, frozen=True, kw_only=True):
    """What a server or a client accepts. Sizes are in bytes and times in seconds.

    Attributes:
        connections: open connections of one server, TLS handshakes included. Further ones are closed at once.
        head_bytes: a request line with its headers (net/http: ``DefaultMaxHeaderBytes`` and 4096); more is a 431.
        head_fields: headers of one request; more is a 431. Go has no such limit; Node.js takes 2,000.
        query_parameters: parameters of a URL (net/url: ``urlmaxqueryparams``); more are a 431.
        head_seconds: from the first byte of a request to the end of its headers, and for a TLS handshake
            (kube-apiserver: ``ReadHeaderTimeout``).
        idle_seconds: between two requests of a connection (kube-apiserver: ``IdleTimeout``).
        body_idle_seconds: without a byte of a request body that the server waits for; then it responds with a 408.
        body_gap_bytes: bytes without data within a chunked body: chunk extensions (net/http: 16 KiB).
        trailer_bytes: the trailers of a chunked body (net/http: 4 KiB).
        body_bytes: the body of a request to an API server (kube-apiserver: ``MaxRequestBodyBytes``); more is a 413.
        media_ranges: the alternatives of an Accept header that are read.
        selector_terms: the requirements and values of one label or field selector; more are a 400.
        patch_operations: operations of a JSON patch (``maxJSONPatchOperations``); more are a 413.
        patch_copied_bytes: what all ``copy`` operations of a JSON patch may add; more is a 413.
        document_values: the keys and values of a JSON or YAML document, with aliases expanded; more are a 400.
        json_path_values: the values that a JSONPath may visit, for example that of a printer column.
        response_head_bytes: the status line and the headers of a response (net/http: ``MaxResponseHeaderBytes``).
        object_bytes: the body of a response with one object; more is a `ResponseLimitError`, also after a write.
            kube-apiserver stores objects of at most 3 MiB.
        list_bytes: the body of any other response that a client reads as a whole: one page of a list, a document. More
            is a `ResponseLimitError`.
        error_bytes: the body of a response that is not 2xx; the rest is dropped.
        informational_responses: 1xx responses before a response (net/http: ``max1xxResponses``).
        inflated_slice_bytes: compressed data is inflated in slices of this size.
        inflated_bytes: from this size on, `inflated_ratio` counts.
        inflated_ratio: the most bytes that one compressed byte of a response may stand for. JSON has up to 50.
        discovery_bytes: a discovery or OpenAPI document of an aggregated server.
        watch_object_bytes: one line of a watch; a longer one ends the watch, and a list follows.
    """

    connections: int = 10_000
    head_bytes: int = MIB + 4096
    head_fields: int = 2000
    query_parameters: int = 10_000
    head_seconds: float = 32.0
    idle_seconds: float = 90.0
    body_idle_seconds: float = 30.0
    body_gap_bytes: int = 16 * KIB
    trailer_bytes: int = 4 * KIB
    body_bytes: int = 3 * MIB
    media_ranges: int = 64
    selector_terms: int = 4096
    patch_operations: int = 10_000
    patch_copied_bytes: int = 3 * MIB
    document_values: int = 400_000
    json_path_values: int = 20_000
    response_head_bytes: int = 10 * MIB
    object_bytes: int = 16 * MIB
    list_bytes: int = 256 * MIB
    error_bytes: int = MIB
    informational_responses: int = 5
    inflated_slice_bytes: int = MIB
    inflated_bytes: int = 64 * MIB
    inflated_ratio: int = 200
    discovery_bytes: int = 8 * MIB
    watch_object_bytes: int = 16 * MIB


LIMITS: Final = Limits()
"""The defaults."""
