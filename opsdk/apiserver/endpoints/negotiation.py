"""Content negotiation of responses. Pure.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/negotiation/negotiate.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from opsdk.apiserver.api_errors import EMPTY
from opsdk.base.limits import LIMITS
from opsdk.errors import NotAcceptableError
from opsdk.structured_merge.value import JsonObject

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
_SERVED = f"{JSON}, {YAML}, {PROTOBUF}"
_STREAMED = f"{JSON};stream=watch, {PROTOBUF};stream=watch"
META_GROUP = "meta.k8s.io"
_MOST_PARAMETERS = 16
_ANYTHING = ("*/*", "application/*")


@dataclass(frozen=True, slots=True)
class AcceptedMediaType:
    """One clause of an Accept header."""

    media: str
    params: Mapping[str, str] = field(default_factory=dict)
    quality: float = 1.0
    write: Callable[[JsonObject], bytes] | None = field(default=None, compare=False)
    """The encoder of other formats than JSON and YAML."""

    kind: str = field(default="", init=False, compare=False)
    """The kind of the requested transformation, e.g. ``Table``; empty without one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", self.params.get("as", ""))

    @property
    def group(self) -> str:
        """The group of `kind`."""
        return self.params.get("g", "")

    @property
    def version(self) -> str:
        """The version of `kind`."""
        return self.params.get("v", "")


def clauses(header: str) -> list[AcceptedMediaType]:
    """Parse an Accept header: best clause first, equal ones in the client's order.

    Clauses behind the first `Limits.media_ranges` are ignored.
    """
    accepted: list[AcceptedMediaType] = []
    for part in header.split(",", LIMITS.media_ranges)[: LIMITS.media_ranges]:
        media, *raw = (p.strip() for p in part.split(";", _MOST_PARAMETERS)[:_MOST_PARAMETERS])
        params = dict(p.split("=", 1) for p in raw if "=" in p)
        try:
            quality = float(params.pop("q", "1"))
        except ValueError:
            quality = 0.0
        if media:
            accepted.append(AcceptedMediaType(media.lower(), params, quality))
    return sorted(accepted, key=lambda clause: -clause.quality)


def nothing_fits(*, streams: bool = False) -> NotAcceptableError:
    """Return the 406 of a known encoding with unsupported parameters."""
    return NotAcceptableError(f"only the following media types are accepted: {_STREAMED if streams else _SERVED}")


def not_acceptable(header: str, *, streams: bool = False, served: str = _SERVED) -> NotAcceptableError:
    """Return the 406 of a header without a supported clause."""
    listed = served
    if streams:
        listed = f"{listed}, {_STREAMED}"
    if any(c.media in (JSON, YAML, PROTOBUF, "*/*") for c in clauses(header)):
        return nothing_fits(streams=streams)
    return NotAcceptableError(f"406: Not Acceptable\n\nAvailable representations: {listed}", details=EMPTY)


Kinds = Mapping[str, tuple[str, tuple[str, ...]]]
"""The group and the versions of each transformation."""


def check_media(header: str) -> None:
    """Reject a header of a built-in kind whose clauses are all ``application/*``."""
    if all(c.media == "application/*" for c in clauses(header)):
        raise not_acceptable(header)


def _serves(clause: AcceptedMediaType, kinds: Kinds, binary: frozenset[str]) -> bool:
    if clause.media == PROTOBUF and clause.kind not in binary:
        return False
    if clause.media not in (JSON, YAML, PROTOBUF, *_ANYTHING):
        return False
    if clause.params.get("stream", "watch") != "watch":
        return False
    if not clause.kind:
        return not clause.group and not clause.version
    versions = kinds.get(clause.kind)
    return versions is not None and clause.group == versions[0] and clause.version in versions[1]


NOTHING: frozenset[str] = frozenset()
"""No protobuf."""


def negotiate(
    header: str,
    kinds: Kinds | None = None,
    *,
    binary: frozenset[str] = NOTHING,
    streams: bool = False,
) -> AcceptedMediaType:
    """Return the best clause that the server supports.

    `binary` are the transformations with a protobuf form; the empty string is the untransformed object. `streams`
    changes only the error message.

    >>> negotiate("application/yaml;q=0.5, application/json").media
    'application/json'
    """
    if not header.strip():
        return AcceptedMediaType(JSON)
    for clause in clauses(header):
        if _serves(clause, kinds or {}, binary):
            return AcceptedMediaType(JSON, clause.params) if clause.media in _ANYTHING else clause
    raise not_acceptable(header, streams=streams)


OBJECT_KINDS = {"Table": (META_GROUP, ("v1", "v1beta1")), "PartialObjectMetadata": (META_GROUP, ("v1", "v1beta1"))}
"""Transformations of objects and lists."""

OBJECT_KINDS["PartialObjectMetadataList"] = OBJECT_KINDS["PartialObjectMetadata"]
"""A request for the wrong one of the two is parsed, and rejected with another message."""

METADATA = frozenset({"PartialObjectMetadata", "PartialObjectMetadataList"})
"""The transformations that all kinds support as protobuf. Tables have no protobuf form."""

TYPED = METADATA | {""}
"""The transformations that built-in kinds support as protobuf."""

WHOLE = frozenset({""})
"""For errors, which are never transformed."""
