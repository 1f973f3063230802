"""TokenRequests: ``serviceaccounts/<name>/token``.

Upstream: pkg/registry/core/serviceaccount/storage/token.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from envtest.groups.common.defaulting import put
from opsdk.aio.clock import utc_now
from opsdk.apiserver import api_errors
from opsdk.apiserver.auth.jwt import SigningKey
from opsdk.apiserver.auth.service_accounts import BoundObject, Find, TokenSubject, claims_of
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.registry.local_store import LocalStore
from opsdk.apiserver.registry.rest import Validate, accept
from opsdk.apiserver.registry.strategy import Strategy
from opsdk.errors import Cause, ConflictError, Details, NotFoundError
from opsdk.structured_merge.value import JsonObject

_GROUP, _KIND = "authentication.k8s.io", "TokenRequest"
_SHORTEST, _LONGEST = 600, 1 << 32
_PROJECTED = 3607
"""The lifetime in seconds that kubelets request for projected tokens; upstream extends it to a year."""
_YEAR = 365 * 24 * 3600
_BOUND = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


def defaults(obj: JsonObject) -> None:
    """Default the expiration to one hour."""
    put(obj.setdefault("spec", {}), expirationSeconds=3600)


def check(spec: JsonObject) -> Sequence[Cause]:
    """Validate a TokenRequest."""
    seconds, field = spec.get("expirationSeconds", 0), "spec.expirationSeconds"
    if seconds < _SHORTEST:
        return [api_errors.invalid_value(field, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > _LONGEST:
        return [api_errors.invalid_value(field, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


class TokenRequests:
    """Issues tokens of the service accounts in `store`; `find` returns the object that a token is bound to."""

    def __init__(self, store: LocalStore, key: SigningKey, find: Find, names: TokenSubject) -> None:
        self.strategy = Strategy()
        self._store = store
        self._key = key
        self._find = find
        self._names = names

    async def create(self, context: Context, name: str, obj: JsonObject, validate: Validate = accept) -> JsonObject:
        """See `Creater`; nothing is stored."""
        meta, spec = dict(obj.get("metadata") or {}), dict(obj["spec"])
        for key, expected in (("name", name), ("namespace", context.namespace)):
            word = "service account"
            if meta.get(key) and meta[key] != expected:
                text = f"must match the {word} {key} if specified"
                cause = api_errors.invalid_value(f"metadata.{key}", meta[key], text)
                raise api_errors.invalid(_KIND, _GROUP, name, [cause])
        account = await self._store.get(context, name)
        spec["audiences"] = spec.get("audiences") or list(self._names.audiences)
        spec.setdefault("boundObjectRef", None)
        metadata = account["metadata"]
        meta.update(name=name, namespace=metadata["namespace"], uid=metadata.get("uid", ""))
        meta["creationTimestamp"] = context.timestamp()
        token_request: JsonObject = {**obj, "metadata": meta, "spec": spec}
        token_request.pop("status", None)
        causes = check(spec)
        if causes:
            raise api_errors.invalid(_KIND, _GROUP, "", causes)
        await validate(token_request, None)
        ref, seconds = spec["boundObjectRef"], int(spec["expirationSeconds"])
        bound_object = self._bound(account, ref) if ref is not None else BoundObject()
        extended = (
            bound_object.pod is not None and seconds == _PROJECTED and spec["audiences"] == list(self._names.audiences)
        )
        now = utc_now()
        claims = claims_of(
            account,
            bound_object,
            issuer=self._names.issuers[0],
            audiences=spec["audiences"],
            now=int(now.timestamp()),
            seconds=_YEAR if extended else seconds,
            warn_after=seconds if extended else 0,
            token_id=context.new_uid(),
        )
        expires = (now + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {**token_request, "status": {"token": self._key.sign(claims), "expirationTimestamp": expires}}

    def _bound(self, account: JsonObject, ref: JsonObject) -> BoundObject:
        """Return the object that a token is bound to. Raises if it is missing, or has another UID."""
        kind, name, version = ref.get("kind", ""), ref.get("name", ""), ref.get("apiVersion", "")
        group, _, short = version.rpartition("/")
        resource = _BOUND.get(kind, "") if not group else ""
        if not resource:
            raise api_errors.bad_request(f"cannot bind token to object of type {group}/{short}, Kind={kind}")
        meta = account["metadata"]
        obj = self._find(resource, "" if resource == "nodes" else meta["namespace"], name)
        if obj is None:
            raise NotFoundError(f'{resource} "{name}" not found', details=Details(name=name, kind=resource))
        node = None
        if resource == "pods":
            node = self._node_of(meta["name"], obj)
        if ref.get("uid") and ref["uid"] != obj["metadata"].get("uid"):
            uid = ref["uid"]
            reason = (
                f"the UID in the bound object reference ({uid}) does not match the UID in record."
                " The object might have been deleted and then recreated"
            )
            text = f'Operation cannot be fulfilled on {kind} "{name}": {reason}'
            raise ConflictError(text, details=Details(name=name, kind=kind))
        match resource:
            case "pods":
                return BoundObject(pod=obj, node=node)
            case "secrets":
                return BoundObject(secret=obj)
            case _:
                return BoundObject(node=obj)

    def _node_of(self, account: str, pod: JsonObject) -> JsonObject | None:
        spec = pod.get("spec") or {}
        if spec.get("serviceAccountName", "") != account:
            raise api_errors.bad_request(
                f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount name.'
            )
        name = spec.get("nodeName")
        return (self._find("nodes", "", name) or {"metadata": {"name": name}}) if name else None
