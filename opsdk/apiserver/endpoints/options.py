"""Parses and validates query options of requests.

Upstream: k8s.io/apimachinery/pkg/apis/meta/internalversion/validation, pkg/apis/meta/v1/validation (v1.36).
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Sequence

import msgspec

from opsdk.apimachinery.selectors import FieldRequirement, FieldSelector
from opsdk.apimachinery.serializer.documents import json_kind
from opsdk.apimachinery.serializer.json_errors import first_fault
from opsdk.apiserver import api_errors
from opsdk.apiserver.endpoints.request_info import is_true
from opsdk.apiserver.endpoints.selectors import parse_fields, parse_labels
from opsdk.apiserver.registry.rest import Selection
from opsdk.errors import ApiError, Cause
from opsdk.http.server.request import Query
from opsdk.structured_merge.value import JsonObject

_DIGITS = 1000
"""Most digits of a number; parsing longer ones is slow."""


def number(query: Query, key: str) -> int | None:
    """Return an integer query parameter; None if it is absent."""
    if key not in query:
        return None
    text = query.get(key)
    if not re.fullmatch(r"[-+]?[0-9]+", text):
        raise api_errors.bad_request(f"strconv.ParseInt: parsing {api_errors.quoted(text)}: invalid syntax")
    if len(text) > _DIGITS or not -(2**63) <= int(text) < 2**63:
        raise api_errors.bad_request(f"strconv.ParseInt: parsing {api_errors.quoted(text)}: value out of range")
    return int(text)


def resource_version(text: str) -> int:
    """Parse a resourceVersion. Raises the server's error if it is not a number."""
    quoted_text = api_errors.quoted(text)
    reason = "" if re.fullmatch(r"[0-9]+", text) else "invalid syntax"
    if not reason and (len(text) > _DIGITS or int(text) >= 2**64):
        reason = "value out of range"
    if reason:
        raise api_errors.plain(
            f"resourceVersion: Invalid value: {quoted_text}: strconv.ParseUint: parsing {quoted_text}: {reason}"
        )
    return int(text)


class ListQueryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of list, watch and deletecollection."""

    selection: Selection
    version: str = ""
    match: str = ""
    limit: int = 0
    token: str = ""
    timeout: int | None = None
    bookmarks: bool = False
    initial_events: bool | None = None


def list_options(query: Query, *, name: str = "") -> ListQueryOptions:
    """Read and check list options; `name` is the object's name in a deprecated watch path."""
    fields = parse_fields(query.get("fieldSelector"))
    if name:
        requirement = FieldRequirement("metadata.name", name)
        if not fields.requirements:
            fields = FieldSelector((requirement,))
        elif requirement not in fields.requirements:
            raise api_errors.bad_request("fieldSelector metadata.name doesn't match requested name")
    initial = query.get("sendInitialEvents")
    return ListQueryOptions(
        selection=Selection(labels=parse_labels(query.get("labelSelector")), fields=fields),
        version=query.get("resourceVersion"),
        match=query.get("resourceVersionMatch"),
        limit=max(number(query, "limit") or 0, 0),
        token=query.get("continue"),
        timeout=number(query, "timeoutSeconds"),
        bookmarks="allowWatchBookmarks" in query and is_true(query.get("allowWatchBookmarks")),
        initial_events=is_true(initial) if initial else None,
    )


def _forbidden(field: str, reason: str) -> Cause:
    return api_errors.not_allowed(field, reason)


def check_list(options: ListQueryOptions) -> None:
    """Raise for a combination of options that a list rejects."""
    causes: list[Cause] = []
    match = options.match
    if match:
        if not options.version:
            causes.append(
                _forbidden(
                    "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
                )
            )
        if options.token:
            causes.append(
                _forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided")
            )
        if match not in ("Exact", "NotOlderThan"):
            causes.append(api_errors.unsupported("resourceVersionMatch", match, ["Exact", "NotOlderThan", ""]))
        if match == "Exact" and options.version == "0":
            causes.append(
                _forbidden("resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
            )
    if options.initial_events is not None:
        causes.append(_forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if causes:
        raise api_errors.invalid_options("ListOptions", tuple(causes))


def check_watch(options: ListQueryOptions) -> None:
    """Raise for a combination of options that a watch rejects."""
    causes: list[Cause] = []
    field = "resourceVersionMatch"
    if options.token:
        causes.append(_forbidden(field, "resourceVersionMatch is forbidden when continue is provided"))
    if options.initial_events is not None and options.match != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        causes.append(_forbidden(field, text))
    if options.initial_events is None and options.match:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        causes.append(_forbidden(field, text))
    if options.match and options.match != "NotOlderThan":
        causes.append(api_errors.unsupported(field, options.match, ["NotOlderThan"]))
    if causes:
        raise api_errors.invalid_options("ListOptions", tuple(causes))


# ------------------------------------------------------------------ continue tokens
class ContinueToken(msgspec.Struct, frozen=True):
    """A continue token: the snapshot's revision (-1: the current one) and the next key."""

    revision: int
    start: str

    def encode(self) -> str:
        """Return the encoded token."""
        raw = json.dumps({"v": "meta.k8s.io/v1", "rv": self.revision, "start": self.start}, separators=(",", ":"))
        return base64.urlsafe_b64encode(raw.encode()).decode().rstrip("=")

    @classmethod
    def decode(cls, token: str) -> ContinueToken:
        """Decode a continue token. Raises a 400."""
        digits = _DIGITS_64.match(token)
        good = digits.end() if digits else 0
        if good < len(token) or good % 4 == 1:
            raise _bad_token(f"illegal base64 data at input byte {good if good < len(token) else good - 1}")
        raw = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        try:
            fields = json.loads(raw)
        except ValueError:
            raise _bad_token(first_fault(raw) or "unexpected end of JSON input") from None
        tree = {} if fields is None else fields
        if not isinstance(tree, dict):
            raise _bad_token(f"json: cannot unmarshal {json_kind(tree)} into Go value of type storage.continueToken")
        members: JsonObject = {}
        for key, (go_type, json_type, zero) in _MEMBERS.items():
            value = tree.get(key)
            if value is not None and type(value) is not json_type:
                where = f"Go struct field continueToken.{key} of type {go_type}"
                raise _bad_token(f"json: cannot unmarshal {json_kind(value)} into {where}")
            members[key] = zero if value is None else value
        return cls._checked(members)

    @classmethod
    def _checked(cls, members: JsonObject) -> ContinueToken:
        if members["v"] != "meta.k8s.io/v1":
            raise _bad_token(f"server does not recognize this encoded version {members['v']}")
        if not members["rv"]:
            raise _bad_token("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
        start = members["start"]
        if not start:
            raise _bad_token("encoded start key empty (version meta.k8s.io/v1)")
        if any(part in ("", ".", "..") for part in start.removeprefix("/").split("/")):
            raise _bad_token(start)
        return cls(members["rv"], start.removeprefix("/"))


_DIGITS_64 = re.compile(r"[A-Za-z0-9_-]*")
_MEMBERS = {"v": ("string", str, ""), "rv": ("int64", int, 0), "start": ("string", str, "")}


def _bad_token(reason: str) -> ApiError:
    return api_errors.bad_request(f"invalid continue token: continue key is not valid: {reason}")


# ------------------------------------------------------------------ options of writes
class WriteQueryOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of create, update and patch."""

    dry_run: bool = False
    field_manager: str = ""
    validation: str = "Warn"
    force: bool | None = None
    tree: JsonObject = msgspec.field(default_factory=dict)
    """The options object for admission."""


def write_options(query: Query, kind: str, *, known_causes: Sequence[Cause] = ()) -> WriteQueryOptions:
    """Read and check the options; `kind` names the options object in errors. `known_causes` are reported first."""
    if not query.raw and not known_causes:
        return WriteQueryOptions(tree={"kind": kind, "apiVersion": "meta.k8s.io/v1"})
    causes = list(known_causes)
    dry_runs = query.all("dryRun")
    causes.extend(dry_run_problems(dry_runs))
    manager = query.get("fieldManager")
    if len(manager) > 128:
        causes.append(api_errors.too_long("fieldManager", 128))
    for index, char in enumerate(manager):
        if not char.isprintable():
            text = f"invalid character U+{ord(char):04X} (at position {index})"
            causes.append(api_errors.invalid_value("fieldManager", manager, text))
            break
    validation = query.get("fieldValidation") or "Warn"
    if validation not in ("Ignore", "Warn", "Strict"):
        causes.append(api_errors.unsupported("fieldValidation", validation, ["", "Ignore", "Strict", "Warn"]))
    if causes:
        raise api_errors.invalid_options(kind, tuple(causes))
    force = query.get("force")
    tree: JsonObject = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
    if query.get("dryRun"):
        tree["dryRun"] = query.all("dryRun")
    if kind == "PatchOptions" and query.get("force"):
        tree["force"] = is_true(query.get("force"))
    tree.update({key: query.get(key) for key in ("fieldManager", "fieldValidation") if query.get(key)})
    return WriteQueryOptions(
        dry_run=bool(dry_runs),
        field_manager=manager,
        validation=validation,
        force=is_true(force) if force else None,
        tree=tree,
    )


def dry_run_problems(values: list[str]) -> list[Cause]:
    """Return the errors in the values of ``dryRun``."""
    return [api_errors.unsupported("dryRun", values, ["All"])] if any(value != "All" for value in values) else []
