"""PATCH: JSON patch, merge patch, strategic merge patch, apply.

All four are functions from the current object to the wanted one; the store runs them in its one update path, again
when somebody else was faster.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from opsdk.apiserver import problems
from opsdk.apiserver.endpoints import body, ownership
from opsdk.apiserver.endpoints.admit import Admission, Gate
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.endpoints.options import WriteOptions, check_timeout, write_options
from opsdk.apiserver.endpoints.render import accepted_for, object_response
from opsdk.apiserver.endpoints.verb_update import check_name, finish
from opsdk.apiserver.resources import Installed
from opsdk.apiserver.storage.ports import Tree
from opsdk.apiserver.tree_copy import copy_tree
from opsdk.errors import ApiError, DecodeError, InvalidError, PatchError, TooLargeError
from opsdk.tree.json_patch import apply_json_patch
from opsdk.tree.merge_patch import apply_merge_patch
from opsdk.tree.strategic import apply_strategic
from opsdk.web.response import Response

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
_MAX_OPERATIONS = 10_000


@dataclass(frozen=True, slots=True)
class Patch:
    """A patch, and how it is refused where it does not fit."""

    apply: Callable[[Tree], Any]
    strategic: bool = False

    def refused(self, error: PatchError) -> ApiError:
        """Strategic merges fail in their own words, the others in none."""
        if self.strategic:
            return problems.plain(str(error))
        return InvalidError("the server rejected our request due to an error in our request")


def patch_types(served: Installed) -> tuple[str, ...]:
    """The content types that a resource takes; custom ones have no strategic merge."""
    return (JSON_PATCH, MERGE_PATCH, STRATEGIC, APPLY) if served.model.typed else (JSON_PATCH, MERGE_PATCH, APPLY)


async def handle(call: Call, served: Installed, admission: Admission) -> Response:
    """Patch it; 200, or 201 where apply created it."""
    accepted = accepted_for(call)
    check_timeout(call.http.query)
    media = call.http.header("content-type").partition(";")[0].strip().lower()
    if media not in patch_types(served):
        raise body.unsupported_media(", ".join(patch_types(served)))
    options = _options(call, apply=media == APPLY)
    raw = await call.http.body(body.LIMIT)
    gate = Gate(admission, call, served, options.tree, dry_run=options.dry_run)
    if media == APPLY:
        stored, created = await _apply(call, served, gate, options, raw)
    else:
        stored, created = await _patch(call, served, gate, options, _reader(media, served, raw))
    return object_response(call, served, stored, accepted, status=201 if created else 200)


def _options(call: Call, *, apply: bool) -> WriteOptions:
    options = write_options(call.http.query, "PatchOptions")
    if apply and not options.field_manager:
        cause = problems.required("fieldManager", "is required for apply patch")
        raise problems.invalid_options("PatchOptions", (cause,))
    if not apply and options.force is not None:
        cause = problems.not_allowed("force", "may not be specified for non-apply patch")
        raise problems.invalid_options("PatchOptions", (cause,))
    return options


def _parse(raw: bytes) -> Any:
    try:
        return body.parse_json(raw).tree
    except body.SyntaxProblemError as error:
        raise problems.bad_request(f"error decoding patch: {error}") from None


def _reader(media: str, served: Installed, raw: bytes) -> Patch:
    """The patch as a function on trees."""
    parsed = _parse(raw)
    if media == JSON_PATCH:
        if not isinstance(parsed, list):
            raise problems.bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
        if len(parsed) > _MAX_OPERATIONS:
            raise TooLargeError(
                f"Request entity too large: The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS},"
                f" got {len(parsed)}"
            )
        return Patch(lambda doc: apply_json_patch(doc, parsed))
    if not isinstance(parsed, dict):
        raise problems.bad_request(
            "error decoding patch: json: cannot unmarshal into Go value of type map[string]interface {}"
        )
    if media == MERGE_PATCH:
        return Patch(lambda doc: apply_merge_patch(doc, parsed))
    return Patch(lambda doc: apply_strategic(doc, parsed, served.model.shape), strategic=True)


async def _patch(call: Call, served: Installed, gate: Gate, options: WriteOptions, patch: Patch) -> tuple[Tree, bool]:
    async def transform(current: Tree | None) -> Tree:
        if current is None:
            raise problems.not_found(served.info, call.info.name)
        live = served.model.from_storage(current)
        # Patches change nothing in place, and decoding makes what the store may change anew.
        wanted = _decoded(call, served, options, _run(patch, live))
        wanted = served.model.default(wanted)
        return await finish(call, served, gate, current, wanted, manager=options.field_manager)

    return await _update(call, served, gate, options, transform)


def _run(patch: Patch, doc: Tree) -> Tree:
    try:
        patched = patch.apply(doc)
    except PatchError as error:
        raise patch.refused(error) from None
    if not isinstance(patched, dict):
        raise InvalidError("the server rejected our request due to an error in our request")
    return patched


def _undecodable(patched: Tree, why: str) -> ApiError:
    text = json.dumps(patched, ensure_ascii=False, separators=(",", ":"))
    return problems.invalid("", "", "", [problems.invalid_value("patch", text, why)])


def _checked_kind(served: Installed, patched: Tree) -> Tree:
    """The patched object, if it is of the kind still; a built-in one may have lost the name of its kind."""
    info = served.info
    wanted = {"apiVersion": info.kind_api_version, "kind": info.kind}
    if served.model.typed:
        patched = {**patched, **{key: value for key, value in wanted.items() if patched.get(key) is None}}
        for key, value in wanted.items():
            if patched[key] != value:
                raise _undecodable(patched, f"wrong {key}: {patched[key]}")
        return patched
    if not patched.get("kind"):
        text = json.dumps(patched, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
        raise _undecodable(patched, f"Object 'Kind' is missing in '{text}'")
    found = [
        problems.invalid_value(key, patched.get(key, ""), f"must be {wanted[key]}")
        for key in ("kind", "apiVersion")
        if patched.get(key, "") != wanted[key]
    ]
    if found:
        group = str(patched.get("apiVersion", "")).rpartition("/")[0]
        raise problems.invalid(str(patched["kind"]), group, (patched.get("metadata") or {}).get("name", ""), found)
    return patched


def _decoded(call: Call, served: Installed, options: WriteOptions, patched: Tree) -> Tree:
    info = served.info
    patched = _checked_kind(served, patched)
    try:
        decoded = served.model.decode(patched)
    except DecodeError as error:
        raise _undecodable(patched, str(error)) from None
    if decoded.problems and options.validation == "Strict":
        raise _undecodable(patched, f"strict decoding error: {', '.join(decoded.problems)}")
    check_identity(call, served, decoded.obj)
    body.report(call, info, list(decoded.problems), options.validation)
    return decoded.obj


def check_identity(call: Call, served: Installed, obj: Tree) -> None:
    """A patch changes neither name nor namespace."""
    meta = obj.setdefault("metadata", {})
    if not served.model.typed:
        meta.setdefault("name", call.info.name)
    check_name(call, obj)
    if served.info.namespaced and meta.setdefault("namespace", call.info.namespace) != call.info.namespace:
        raise problems.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


async def _apply(call: Call, served: Installed, gate: Gate, options: WriteOptions, raw: bytes) -> tuple[Tree, bool]:
    parsed = _configuration(call, served, raw)
    config = parsed.tree
    body.report(call, served.info, [f'duplicate field "{key}"' for key in parsed.duplicates], options.validation)
    manager = ownership.field_manager(served)

    async def transform(current: Tree | None) -> Tree:
        live = None if current is None else served.model.from_storage(current)
        wanted = manager.apply(
            live,
            copy_tree(config),
            manager=options.field_manager,
            force=bool(options.force),
            now=ownership.stamp(call),
        )
        wanted = served.model.default(served.model.decode(wanted).obj)
        return served.model.to_storage(await gate.mutate(wanted, live))

    return await _update(call, served, gate, options, transform, create=not served.info.subresource)


def _configuration(call: Call, served: Installed, raw: bytes) -> body.Parsed:
    info = served.info
    try:
        parsed = body.parse_yaml(raw)
    except body.SyntaxProblemError as error:
        raise problems.bad_request(f"error decoding YAML: {error}") from None
    config = parsed.tree
    if not isinstance(config, dict):
        raise problems.bad_request("error decoding YAML: the applied configuration is no object")
    if (config.get("metadata") or {}).get("managedFields"):
        raise problems.bad_request("metadata.managedFields must be nil")
    found, wanted = config.get("apiVersion", ""), info.kind_api_version
    if found != wanted:
        raise problems.bad_request(
            f"Incorrect version specified in apply patch. Specified patch version: {found}, expected: {wanted}"
        )
    if config.get("kind") != info.kind:
        raise problems.bad_request(f"invalid object type: {_gvk_text(found, config.get('kind', ''))}")
    check_identity(call, served, config)
    return parsed


def _gvk_text(version: str, kind: str) -> str:
    group, _, name = version.rpartition("/")
    return f"{group}/{name}, Kind={kind}"


async def _update(
    call: Call, served: Installed, gate: Gate, options: WriteOptions, transform: Any, *, create: bool = False
) -> tuple[Tree, bool]:
    context = call.context(dry_run=options.dry_run)
    stored, created = await served.storage.update(
        context, call.info.name, transform, gate.validate, force_create=create
    )
    return stored, created
