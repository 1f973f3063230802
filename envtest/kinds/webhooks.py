# ruff: noqa: ARG002 - hooks take what the store gives, whether a kind needs it or not
"""Webhook configurations: what may stand in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from envtest.kinds.admission_rules import validate_conditions, validate_rule
from envtest.kinds.base import TableStrategy
from envtest.kinds.client_config import has_known_version, validate_client_config, validate_review_versions
from envtest.kinds.selector_rules import check_label_selector
from envtest.tables.load import Row
from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_SIDE_EFFECTS = ("None", "NoneOnDryRun")
_OLD_SIDE_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")
_VERSIONS = "must specify one of v1, v1beta1"


class WebhookStrategy(TableStrategy):
    """Both kinds of configurations; what an old object got away with stays allowed."""

    def __init__(self, row: Row, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self._mutating = row.info.kind.startswith("Mutating")

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Every webhook."""
        return list(self._check(obj.get("webhooks") or (), ()))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Every webhook, in the light of the old ones."""
        return list(self._check(obj.get("webhooks") or (), old.get("webhooks") or ()))

    def _check(self, hooks: Sequence[JsonObject], old: Sequence[JsonObject]) -> Iterator[Cause]:
        recognized = all(has_known_version(hook.get("admissionReviewVersions")) for hook in old)
        unique = len({hook.get("name") for hook in old}) == len(old)
        quiet = all(hook.get("sideEffects") in _SIDE_EFFECTS for hook in old)
        seen: set[str] = set()
        for index, hook in enumerate(hooks):
            field, name = f"webhooks[{index}]", hook.get("name") or ""
            yield from self._hook(hook, field, _SIDE_EFFECTS if quiet else _OLD_SIDE_EFFECTS)
            yield from validate_review_versions(
                hook.get("admissionReviewVersions"),
                f"{field}.admissionReviewVersions",
                missing=_VERSIONS,
                recognized=recognized,
            )
            if unique and name and name in seen:
                yield api_errors.duplicate(f"{field}.name", name)
            seen.add(name)

    def _hook(self, hook: JsonObject, field: str, side_effects: Sequence[str]) -> Iterator[Cause]:
        yield from _name(hook.get("name") or "", f"{field}.name")
        for index, rule in enumerate(hook.get("rules") or ()):
            yield from validate_rule(rule, f"{field}.rules[{index}]")
        yield from _one_of(hook, field, "failurePolicy", ("Fail", "Ignore"))
        yield from _one_of(hook, field, "matchPolicy", ("Equivalent", "Exact"))
        if hook.get("sideEffects") is None:
            yield api_errors.required(f"{field}.sideEffects", f"must specify one of {', '.join(side_effects)}")
        yield from _one_of(hook, field, "sideEffects", side_effects)
        timeout = hook.get("timeoutSeconds")
        if timeout is not None and not 1 <= timeout <= 30:
            why = "the timeout value must be between 1 and 30 seconds"
            yield api_errors.invalid_value(f"{field}.timeoutSeconds", timeout, why)
        for key in ("namespaceSelector", "objectSelector"):
            yield from check_label_selector(hook.get(key) or {}, f"{field}.{key}")
        if self._mutating:
            yield from _one_of(hook, field, "reinvocationPolicy", ("Never", "IfNeeded"))
        yield from validate_client_config(hook.get("clientConfig") or {}, f"{field}.clientConfig")
        yield from validate_conditions(hook.get("matchConditions") or (), f"{field}.matchConditions")


def _name(name: str, field: str) -> Iterator[Cause]:
    if not name:
        yield api_errors.required(field)
    elif found := validation.dns_subdomain(name):
        yield api_errors.invalid_value(field, name, ",".join(found))
    elif name.count(".") < 2:
        why = "should be a domain with at least three segments separated by dots"
        yield api_errors.invalid_value(field, name, why)


def _one_of(hook: JsonObject, field: str, key: str, allowed: Sequence[str]) -> Iterator[Cause]:
    value = hook.get(key)
    if value is not None and value not in allowed:
        yield api_errors.unsupported(f"{field}.{key}", value, allowed)
