"""Check whether an object fits into the quotas of its namespace. Pure.

Upstream: k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go (v1.36)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from envtest.admission.pod_resources import ZERO, Amounts, add, read
from envtest.admission.resource_quota.evaluators import Evaluator
from opsdk.apimachinery.quantity import Quantity
from opsdk.structured_merge.value import JsonObject


class QuotaError(Exception):
    """The object exceeds a quota; the text is the message of the 403."""


class QuotaRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to be measured; `old` is the object before an update."""

    evaluator: Evaluator
    obj: JsonObject
    old: JsonObject | None
    now: datetime


def check_request(quotas: Sequence[JsonObject], request: QuotaRequest) -> list[tuple[JsonObject, Amounts]]:
    """Return the affected quotas with their new usage; `QuotaError` if one is exceeded."""
    interesting = [quota for quota in quotas if _quota_applies(quota, request)]
    # The usage of the object; for an update only the increase.
    usage = request.evaluator.usage(request.obj, request.now)
    negative = sorted(name for name, amount in usage.items() if amount < ZERO)
    if negative:
        raise QuotaError(f"quota usage is negative for resource(s): {','.join(negative)}")
    if request.old is not None:
        before = request.evaluator.usage(request.old, request.now)
        usage = {name: amount - before.get(name, ZERO) for name, amount in usage.items()}
    more = {name: amount for name, amount in usage.items() if amount > ZERO}
    if not more:
        return []
    charges = [(quota, _with_usage(quota, more)) for quota in interesting]
    return [(quota, used) for quota, used in charges if used != _of(quota, "used")]


def _quota_applies(quota: JsonObject, request: QuotaRequest) -> bool:
    """Whether a quota limits the object. Raises `QuotaError` if the object lacks requests or the quota its usage."""
    hard, name = _of(quota, "hard"), quota["metadata"]["name"]
    if not request.evaluator.matches(quota, hard, request.obj):
        return False
    measured = request.evaluator.matching(hard)
    missing = request.evaluator.missing(measured, request.obj)
    if missing:
        raise QuotaError(f"failed quota: {name}: {missing}")
    if measured - _of(quota, "used").keys():
        raise QuotaError(f"status unknown for quota: {name}, resources: {','.join(sorted(measured))}")
    return True


def _with_usage(quota: JsonObject, more: Amounts) -> Amounts:
    hard, used = _of(quota, "hard"), _of(quota, "used")
    requested = {name: amount for name, amount in more.items() if name in hard}
    after = add(used, requested)
    exceeded = sorted(name for name in requested if after[name] > hard[name])
    if exceeded:
        parts = (("requested", requested), ("used", used), ("limited", hard))
        description = ", ".join(f"{word}: {_listed(amounts, exceeded)}" for word, amounts in parts)
        raise QuotaError(f"exceeded quota: {quota['metadata']['name']}, {description}")
    return after


def _listed(amounts: Mapping[str, Quantity], names: Iterable[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in names if name in amounts)


def _of(quota: JsonObject, key: str) -> Amounts:
    return read((quota.get("status") or {}).get(key))


def written(amounts: Mapping[str, Quantity]) -> dict[str, str]:
    """Format a resource list."""
    return {name: str(amounts[name]) for name in sorted(amounts)}


def recount(quota: JsonObject, objects: Iterable[tuple[Evaluator, Iterable[JsonObject]]], now: datetime) -> Amounts:
    """Return the usage of each resource that the quota limits."""
    hard = read((quota.get("spec") or {}).get("hard"))
    total: Amounts = dict.fromkeys(hard, ZERO)
    for evaluator, counted in objects:
        if not evaluator.matching(hard):
            continue
        for obj in counted:
            if evaluator.matches(quota, hard, obj):
                usage = evaluator.usage(obj, now)
                total = add(total, {name: amount for name, amount in usage.items() if name in hard})
    return total
