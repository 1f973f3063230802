# ruff: noqa: ARG002 - hooks take what the store gives, whether a kind needs it or not
"""APIServices: who serves a group version."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence

from envtest.kinds.base import TableStrategy
from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.apiserver.aggregator.api_services import local_status
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

SERVICES = "apiregistration.k8s.io/apiservices"
_STATUSES = ("True", "False", "Unknown")


class ApiServiceStrategy(TableStrategy):
    """What is local is available from the start.

    Attributes:
        gone: hears of those that were deleted.
    """

    status_keeps = ("labels", "annotations", "finalizers", "ownerReferences")
    gone: Callable[[Context], Awaitable[None]] | None = None

    def name_rule(self, name: str, *, prefix: bool = False) -> Sequence[str]:
        """What may stand in a path; `validate` knows what else."""
        return validation.path_segment(name, prefix=prefix)

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """The status is the server's."""
        local = (obj.get("spec") or {}).get("service") is None
        obj["status"] = local_status(context.timestamp()) if local else {}

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """The name first."""
        return [*_name(obj), *_spec(obj.get("spec") or {})]

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Conditions are true, false or unknown."""
        conditions = (obj.get("status") or {}).get("conditions") or ()
        return [
            api_errors.unsupported(f"status.conditions[{index}].status", found.get("status") or "", sorted(_STATUSES))
            for index, found in enumerate(conditions)
            if found.get("status") not in _STATUSES
        ]

    async def after_delete(self, context: Context, obj: JsonObject) -> None:
        """Some come back."""
        if self.gone is not None:
            await self.gone(context)


def _name(obj: JsonObject) -> Iterator[Cause]:
    spec, meta = obj.get("spec") or {}, obj["metadata"]
    wanted = f"{spec.get('version', '')}.{spec.get('group', '')}"
    for key in ("generateName", "name"):
        name = meta.get(key)
        if name and name != wanted and not validation.path_segment(name):
            why = f'must be `spec.version+"."+spec.group`: {api_errors.quoted(wanted)}'
            yield api_errors.invalid_value(f"metadata.{key}", name, why)


def _spec(spec: JsonObject) -> Iterator[Cause]:
    group, version = spec.get("group") or "", spec.get("version") or ""
    if not group and version != "v1":
        yield api_errors.required("spec.group", "only v1 may have an empty group and it better be legacy kube")
    for why in validation.dns_subdomain(group) if group else ():
        yield api_errors.invalid_value("spec.group", group, why)
    for why in validation.dns_1035_label(version):
        yield api_errors.invalid_value("spec.version", version, why)
    for key, most in (("groupPriorityMinimum", 20000), ("versionPriority", 1000)):
        number = spec.get(key) or 0
        if not 0 < number <= most:
            yield api_errors.invalid_value(f"spec.{key}", number, f"must be positive and less than {most}")
    if spec.get("service") is None:
        yield from _local(spec)
    else:
        yield from _remote(spec)


def _local(spec: JsonObject) -> Iterator[Cause]:
    bundle = spec.get("caBundle")
    if bundle:
        size = f"{len(bundle.rstrip('=')) * 3 // 4} bytes"
        yield api_errors.invalid_value("spec.caBundle", size, "local APIServices may not have a caBundle")
    if spec.get("insecureSkipTLSVerify"):
        why = "local APIServices may not have insecureSkipTLSVerify"
        yield api_errors.invalid_value("spec.insecureSkipTLSVerify", True, why)


def _remote(spec: JsonObject) -> Iterator[Cause]:
    service = spec["service"]
    for key in ("namespace", "name"):
        if not service.get(key):
            yield api_errors.required(f"spec.service.{key}")
    port = service.get("port") or 0
    if not 1 <= port <= 65535:
        why = "port is not valid: must be between 1 and 65535, inclusive"
        yield api_errors.invalid_value("spec.service.port", port, why)
    if spec.get("insecureSkipTLSVerify") and spec.get("caBundle"):
        yield api_errors.invalid_value("spec.insecureSkipTLSVerify", True, "may not be true if caBundle is present")
