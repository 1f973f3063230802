"""Runs admission between decoding and storing, for every verb.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers/create.go (v1.36).
"""

from __future__ import annotations

from opsdk.apiserver import api_errors
from opsdk.apiserver.admission.attributes import Attributes
from opsdk.apiserver.admission.chain import AdmissionInterface
from opsdk.apiserver.endpoints.authorization import check_create
from opsdk.apiserver.endpoints.call import Call
from opsdk.apiserver.fieldmanager.managed_fields import decode_entries, entries_of, keep_times, with_entries
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.resources import InstalledResource
from opsdk.errors import DecodeError
from opsdk.structured_merge.value import JsonObject


class RequestAdmission:
    """Admission of one request: it creates the attributes and calls the chain.

    Args:
        options: the options object of the request.
        context: the context of the call into the registry.
    """

    def __init__(
        self,
        admission: AdmissionInterface,
        call: Call,
        served: InstalledResource,
        options: JsonObject,
        context: Context,
    ) -> None:
        self._admission = admission
        self._call = call
        self._served = served
        self._options = options
        self.context = context

    def __repr__(self) -> str:
        return f"<Gate before {self._served.info.path}>"

    async def mutate(self, obj: JsonObject, old: JsonObject | None) -> JsonObject:
        """Return the object after mutating admission; both are of the served version. The caller owns the result."""
        review = self._review("CREATE" if old is None else "UPDATE", obj, old)
        await self._admission.mutate(review)
        if review.obj is None or review.obj is obj:
            return obj
        info = self._served.info
        namespace = (review.obj.get("metadata") or {}).get("namespace") or self._call.info.namespace
        if info.namespaced and not info.subresource and namespace != self._call.info.namespace:
            raise api_errors.foreign_namespace()
        changed = review.obj
        try:
            decode_entries(entries_of(changed))
        except DecodeError as error:
            self._call.warn(_BAD_OWNERS.format(error))
            changed = with_entries(changed, decode_entries(entries_of(obj)))
        # Admission may revert the change. Then nothing is written, not even the time in managedFields.
        return changed if old is None else await self.context.compute(keep_times, old, changed)

    async def validate(self, obj: JsonObject, old: JsonObject | None) -> None:
        """Run validating admission for a create or update (see `Validate`)."""
        if old is None and self._call.info.verb != "create":
            await check_create(self._call)
        read = self._served.model.from_storage
        before = None if old is None else await self.context.compute(read, old)
        after = await self.context.compute(read, obj)
        await self._admission.validate(self._review("CREATE" if old is None else "UPDATE", after, before))

    async def remove(self, obj: JsonObject, _: JsonObject | None) -> None:
        """Run mutating and validating admission for a delete."""
        old = await self.context.compute(self._served.model.from_storage, obj)
        await self._admission.mutate(self._review("DELETE", None, old))
        await self._admission.validate(self._review("DELETE", None, old))

    async def connect(self, kind: str, options: JsonObject) -> None:
        """Run admission for a CONNECT request; `options` is an object of `kind`."""
        for judge in (self._admission.mutate, self._admission.validate):
            review = self._review("CONNECT", options, None)
            review.connected = kind
            await judge(review)

    def _review(self, operation: str, obj: JsonObject | None, old: JsonObject | None) -> Attributes:
        """Return the attributes of an operation, which plugins, policies and webhooks see."""
        call, info, body = self._call, self._served.info, obj if obj is not None else old
        meta: JsonObject = (body or {}).get("metadata") or {}
        namespace = call.info.namespace
        if info.resource == "namespaces" and not info.group:
            namespace = call.info.name or str(meta.get("name", ""))  # a Namespace object is in its own namespace
        options, kind = self._options, {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions"}.get(operation)
        if kind is not None and options.get("kind") != kind:
            # A PUT that creates has CreateOptions, and a patch that updates has UpdateOptions.
            options = {**{key: value for key, value in options.items() if key != "force"}, "kind": kind}
        return Attributes(
            call=call,
            served=self._served,
            operation=operation,
            namespace=namespace,
            name=call.info.name or ("" if operation == "DELETE" else meta.get("name", "")),
            obj=obj,
            old=old,
            options=options,
            dry_run=self.context.dry_run,
        )


_BAD_OWNERS = (
    ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated mutating"
    " admission controller; please fix your requests: {}"
)
