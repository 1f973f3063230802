"""Parses URLs into version, sub-context, type, object and link. Pure.

Upstream: github.com/rancher/norman/parse/parse.go
Deviates: a sub-context path that names no schema, such as ``/v3/clusters/c1/yaml``, is a link of the object; norman
answers 404.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from opsdk.apimachinery.plurals import guess_plural
from opsdk.norman.model import SchemaLookup
from opsdk.norman.schema_parts import ApiVersion


class _ParsedUrl(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a URL.

    Attributes:
        version: the longest version that matches; None at the root.
        sub_context: the full path of the schema of the sub-context, and the id in the URL.
        sub_context_prefix: the part between the path of the version and the type, such as ``/c1``.
        type: the name of a schema, or empty.
        id: of an object, or empty.
        link: of an object, or empty.
    """

    version: ApiVersion | None = None
    sub_context: Mapping[str, str] = msgspec.field(default_factory=dict)
    sub_context_prefix: str = ""
    type: str = ""
    id: str = ""
    link: str = ""


def parse_url(schemas: SchemaLookup, path: str) -> _ParsedUrl:
    """Return the parts of a path. Repeated and trailing slashes are ignored."""
    segments = [segment for segment in path.split("/") if segment]
    versions = _matching(schemas.versions(), segments)
    if not versions:
        return _ParsedUrl()
    version = versions[0]
    length = len(_segments(version))
    rest = segments[length:]
    if not version.sub_context or len(versions) < 2 or (rest and rest[0] in ("schema", "schemas")):
        return _parsed(version, rest)
    # /v3/clusters and /v3/clusters/c1 are of the version /v3.
    parent = _parsed(versions[1], segments[length - 1 :])
    if len(rest) < 2:
        return parent
    sub_context = {version.sub_context_schema: rest[0]}
    for candidate in versions:
        if schemas.schema(candidate, rest[1]) is not None:
            prefix = f"/{rest[0]}" if candidate is version else ""
            return _parsed(candidate, rest[1:], sub_context, prefix)
    return parent


def _parsed(
    version: ApiVersion, rest: Sequence[str], sub_context: Mapping[str, str] | None = None, prefix: str = ""
) -> _ParsedUrl:
    kind, object_id, link = (*rest, "", "", "")[:3]
    return _ParsedUrl(
        version=version,
        sub_context=sub_context or {},
        sub_context_prefix=prefix,
        type=kind,
        id=object_id,
        link=link,
    )


def _matching(versions: Sequence[ApiVersion], segments: Sequence[str]) -> list[ApiVersion]:
    """Return the versions whose path starts the URL, the longest first."""
    matching = [version for version in versions if version.path and _starts(version, segments)]
    return sorted(matching, key=lambda version: len(_segments(version)), reverse=True)


def _starts(version: ApiVersion, segments: Sequence[str]) -> bool:
    own = _segments(version)
    if len(segments) < len(own) or list(segments[: len(own) - 1]) != own[:-1]:
        return False
    last = segments[len(own) - 1]
    # A sub-context at /v3/cluster is served at /v3/clusters too.
    return last == own[-1] or (version.sub_context and last == guess_plural(own[-1]))


def _segments(version: ApiVersion) -> list[str]:
    return [segment for segment in version.path.split("/") if segment]
