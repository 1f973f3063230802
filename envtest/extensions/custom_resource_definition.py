"""CustomResourceDefinitions: defaulting, validation and strategy.

Upstream: k8s.io/apiextensions-apiserver/pkg/registry/customresourcedefinition (v1.36)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final
from urllib.parse import urlsplit

from envtest.data.resources import ServedResourceRow
from envtest.extensions.conversion import bundle_is_bad, validate_conversion
from envtest.extensions.definition_paths import validate_columns, validate_scale, validate_selectable
from envtest.extensions.format_warnings import format_warnings
from envtest.extensions.names import APPROVAL, condition, is_protected_group, is_true, put_condition
from envtest.groups.common.defaulting import put
from envtest.groups.common.strategy import GeneratedStrategy
from envtest.groups.common.webhook_client_config import has_known_version
from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.structural.schema_validation import check_structural
from opsdk.errors import Cause
from opsdk.structured_merge.paths import FieldPath
from opsdk.structured_merge.value import JsonObject

DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


def defaults(obj: JsonObject) -> None:
    """Default the singular name and the list kind from the kind, and the conversion strategy to None."""
    spec = obj.setdefault("spec", {})
    spoken = spec.setdefault("names", {})
    kind = spoken.get("kind", "")
    if kind:
        for key, value in (("singular", kind.lower()), ("listKind", f"{kind}List")):
            if not spoken.get(key):
                spoken[key] = value
    put(spec, conversion={"strategy": "None"})
    stored = _storage_versions(obj)[:1]
    if stored and not (obj.get("status") or {}).get("storedVersions"):
        obj["status"] = {**(obj.get("status") or {}), "storedVersions": stored}
    hook = spec["conversion"].get("webhook") or {}
    if hook.get("clientConfig") is None and not hook.get("conversionReviewVersions"):
        spec["conversion"].pop("webhook", None)
    webhook = (spec["conversion"].get("webhook") or {}).get("clientConfig") or {}
    if isinstance(webhook.get("service"), dict):
        put(webhook["service"], port=443)
    for version in spec.get("versions") or ():
        for column in version.get("additionalPrinterColumns") or ():
            column.setdefault("type", "")


class DefinitionStrategy(GeneratedStrategy):
    """Validates CustomResourceDefinitions. `on_changed` is set when the extension server exists."""

    core_metadata = False
    checks_preconditions = True
    on_changed: Callable[[Context, str], Awaitable[None]] | None = None

    def __init__(self, row: ServedResourceRow, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self.returns_deleted = True

    # -------------------------------------------------------------- create and update
    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Set an empty status: no names are accepted yet."""
        obj["status"] = {
            "conditions": None,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": _storage_versions(obj) or None,
        }

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Add a new storage version to ``status.storedVersions``."""
        status = dict(old.get("status") or {})
        stored = list(status.get("storedVersions") or [])
        stored.extend(v for v in _storage_versions(obj) if v not in stored)
        obj["status"] = {**status, "storedVersions": stored}

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Validate names, versions, schemas and printer columns."""
        rules = [*self._rules(obj, None), *_validate_stored(obj), *_validate_preserving(obj["spec"])]
        return [*_validate_name(obj), *rules, *_validate_approval(obj, None)]

    def warnings(self, context: Context, obj: JsonObject, old: JsonObject | None) -> Sequence[str]:
        """Warn of unknown formats."""
        return format_warnings(obj, old)

    @staticmethod
    def _rules(obj: JsonObject, old: JsonObject | None) -> list[Cause]:
        """Apply the rules of both creates and updates, in the server's order."""
        spec = obj["spec"]
        return [
            *_validate_group(spec),
            *_validate_scope(spec),
            *_validate_versions(spec),
            *_validate_names(spec.get("names") or {}),
            *_validate_shared(spec.get("versions") or []),
            *_conversion(obj, old),
        ]

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Validate the new spec; group, plural, scope and kind are immutable."""
        spec, before = obj["spec"], old["spec"]
        fixed = []
        if is_true(old, "Established"):
            fixed.append(("scope", spec.get("scope"), before.get("scope")))
            fixed.append(("names.kind", spec["names"].get("kind"), before["names"].get("kind")))
        fixed.append(("group", spec.get("group"), before.get("group")))
        fixed.append(("names.plural", spec["names"].get("plural"), before["names"].get("plural")))
        causes = [
            api_errors.invalid_value(f"spec.{field}", now, "field is immutable")
            for field, now, was in fixed
            if now != was
        ]
        last = [*_validate_stored(obj), *_validate_preserving(spec), *_validate_approval(obj, old)]
        return [*self._rules(obj, old), *causes, *last]

    # -------------------------------------------------------------- deleting
    def propagation(self, context: Context, obj: JsonObject, requested: str) -> str:
        """Ignore the requested policy: the first deletion only sets the deletion timestamp."""
        return requested if obj["metadata"].get("deletionTimestamp") else ""

    def finalizers_on_delete(self, obj: JsonObject) -> Sequence[str]:
        """Add the finalizer that deletes the instances first."""
        return (CLEANUP,)

    def mark_deleted(self, context: Context, obj: JsonObject) -> None:
        """Set the deletion timestamp without a grace period; the generation does not change."""
        obj["metadata"].pop("deletionGracePeriodSeconds", None)
        obj["metadata"]["generation"] -= 1
        text = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        new = condition("Terminating", "True", "InstanceDeletionPending", text, context.timestamp())
        status = obj.get("status") or {}
        obj["status"] = {**status, "conditions": put_condition(list(status.get("conditions") or []), new)}

    # -------------------------------------------------------------- side effects
    async def after_create(self, context: Context, obj: JsonObject) -> None:
        """Serve the new CRD."""
        await self._changed(context, obj)

    async def after_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Serve the updated CRD."""
        await self._changed(context, obj)

    async def after_delete(self, context: Context, obj: JsonObject) -> None:
        """Stop serving the CRD."""
        await self._changed(context, obj)

    async def _changed(self, context: Context, obj: JsonObject) -> None:
        if self.on_changed is not None:
            await self.on_changed(context, obj["metadata"]["name"])


def _conversion(obj: JsonObject, old: JsonObject | None) -> Iterator[Cause]:
    """Validate the conversion; ratcheting accepts an invalid one that the old definition already had."""
    before: JsonObject = {} if old is None else old["spec"].get("conversion") or {}
    versions = (before.get("webhook") or {}).get("conversionReviewVersions")
    strategy = (obj["spec"].get("conversion") or {}).get("strategy") or ""
    if obj["spec"].get("preserveUnknownFields") and strategy != "None":
        text = "must be None if spec.preserveUnknownFields is true"
        yield api_errors.invalid_value("spec.conversion.strategy", strategy, text)
    yield from validate_conversion(
        obj["spec"].get("conversion") or {},
        "spec.conversion",
        recognized=not versions or has_known_version(versions),
        check_bundle=old is not None and is_true(old, "Established") and not bundle_is_bad(before),
    )


def _storage_versions(obj: JsonObject) -> list[str]:
    return [v["name"] for v in obj["spec"].get("versions") or () if v.get("storage")]


# ------------------------------------------------------------------ validation
def _validate_approval(obj: JsonObject, old: JsonObject | None) -> Iterator[Cause]:
    """Yield what is wrong with the approval annotation of a protected group."""
    group = obj["spec"].get("group", "")
    approval = _approval(obj)
    if not is_protected_group(group) or (
        old is not None and _approval_state(_approval(old)) == _approval_state(approval)
    ):
        return
    field = f"metadata.annotations[{APPROVAL}]"
    if not approval:
        reason = f'protected groups must have approval annotation "{APPROVAL}",'
        yield api_errors.required(field, f"{reason} see https://github.com/kubernetes/enhancements/pull/1111")
    elif _approval_state(approval) == "invalid":
        reason = f'protected groups must have approval annotation "{APPROVAL}" with either a URL or a reason starting'
        text = f'{reason} with "unapproved", see https://github.com/kubernetes/enhancements/pull/1111'
        yield api_errors.invalid_value(field, approval, text)


def _approval(obj: JsonObject) -> str:
    return str((obj["metadata"].get("annotations") or {}).get(APPROVAL, ""))


def _approval_state(approval: str) -> str:
    if not approval:
        return "missing"
    if approval.startswith("unapproved"):
        return "bypassed"
    parts = urlsplit(approval)
    return "approved" if parts.scheme and parts.netloc else "invalid"


def _validate_name(obj: JsonObject) -> Iterator[Cause]:
    spec = obj["spec"]
    expected = f"{spec['names'].get('plural', '')}.{spec.get('group', '')}"
    text = 'must be spec.names.plural+"."+spec.group'
    for key in ("generateName", "name"):
        actual = obj["metadata"].get(key, "")
        if actual and actual != expected:
            yield api_errors.invalid_value(f"metadata.{key}", actual, text)


def _validate_group(spec: JsonObject) -> Iterator[Cause]:
    group = spec.get("group", "")
    if not group:
        yield api_errors.required("spec.group")
        return
    problems = validation.dns_subdomain(group)
    for text in problems:
        yield api_errors.invalid_value("spec.group", group, text)
    if not problems and "." not in group:
        yield api_errors.invalid_value("spec.group", group, "should be a domain with at least one dot")


def _validate_scope(spec: JsonObject) -> Iterator[Cause]:
    if not spec.get("scope"):
        yield api_errors.required("spec.scope")
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        yield api_errors.unsupported("spec.scope", spec.get("scope", ""), ["Cluster", "Namespaced"])


def _validate_versions(spec: JsonObject) -> Iterator[Cause]:
    """Yield what is wrong with the versions of a definition."""
    versions = spec.get("versions") or []
    field = "spec.versions"
    for index, version in enumerate(versions):
        if _schema(version) is None:
            yield api_errors.required(f"{field}[{index}].schema.openAPIV3Schema")
    if spec.get("preserveUnknownFields") and any(_has_defaults(_schema(v)) for v in versions):
        text = "must be false in order to use defaults in the schema"
        yield api_errors.invalid_value("spec.preserveUnknownFields", True, text)
    for index, version in enumerate(versions):
        yield from _validate_version(version, f"{field}[{index}]", versions)
    names = [v.get("name") for v in versions]
    if len(set(names)) != len(names):
        yield api_errors.invalid_value(field, _without_schemas(versions), "must contain unique version names")
    if sum(1 for v in versions if v.get("storage")) != 1:
        text = "must have exactly one version marked as storage version"
        yield api_errors.invalid_value(
            field, None if spec.get("versions") is None else _without_schemas(versions), text
        )
    if versions and versions[0].get("name"):
        # The first version is also ``spec.version``, the field of v1beta1.
        for text in validation.dns_1035_label(versions[0]["name"]):
            yield api_errors.invalid_value("spec.version", versions[0]["name"], text)


def _validate_preserving(spec: JsonObject) -> Iterator[Cause]:
    if spec.get("preserveUnknownFields"):
        text = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        yield api_errors.invalid_value("spec.preserveUnknownFields", True, text)


def _validate_version(version: JsonObject, where: str, versions: Sequence[JsonObject]) -> Iterator[Cause]:
    """Yield what is wrong with one version; parts that all versions share are checked once."""
    for text in validation.dns_1035_label(version.get("name", "")):
        yield api_errors.invalid_value(f"{where}.name", version.get("name", ""), text)
    warning = version.get("deprecationWarning")
    if warning is not None:
        if not version.get("deprecated"):
            yield api_errors.invalid_value(
                f"{where}.deprecationWarning", warning, "can only be set for deprecated versions"
            )
        elif not warning:
            yield api_errors.invalid_value(f"{where}.deprecationWarning", "", "must not be an empty string")
    for part, check, paths in _PARTS:
        if _is_shared(part, versions):
            continue
        if part == "selectableFields" and version.get(part) and _is_shared("schema", versions):
            # An equal schema of all versions is a top-level field in the internal form, which this check ignores.
            text = "may only be set when `version.schema.openAPIV3Schema` is not included"
            yield api_errors.invalid_value(f"{where}.{part}", "", text)
        else:
            yield from check(version, f"{where}.{paths[0]}")


def _validate_shared(versions: Sequence[JsonObject]) -> Iterator[Cause]:
    """Validate fields that are equal in all versions: the internal form has them at the top level."""
    for part, check, paths in _PARTS:
        if not versions or not _is_shared(part, versions):
            continue
        if part == "selectableFields" and versions[0].get(part) and not _is_shared("schema", versions):
            # These fields are at the top level and the schemas are not, which this check ignores.
            yield api_errors.invalid_value(f"spec.{part}", "", "may only be set when validations.schema is included")
        else:
            yield from check(versions[0], f"spec.{paths[1]}")


def _is_shared(part: str, versions: Sequence[JsonObject]) -> bool:
    return all((v.get(part) or None) == (versions[0].get(part) or None) for v in versions)


def _check_schema(version: JsonObject, at: str) -> Iterator[Cause]:
    schema = _schema(version)
    if schema is not None:
        has_status = (version.get("subresources") or {}).get("status") is not None
        errors = check_structural(schema, FieldPath(at, "openAPIV3Schema"), has_status=has_status)
        yield from (error.cause for error in errors)


def _check_scale(version: JsonObject, at: str) -> Iterator[Cause]:
    yield from validate_scale(version.get("subresources"), at)


def _check_columns(version: JsonObject, at: str) -> Iterator[Cause]:
    yield from validate_columns(version.get("additionalPrinterColumns"), at)


def _check_selectable(version: JsonObject, at: str) -> Iterator[Cause]:
    yield from validate_selectable(version.get("selectableFields"), _schema(version), at)


_PARTS: Final[Sequence[tuple[str, Callable[[JsonObject, str], Iterator[Cause]], tuple[str, str]]]] = (
    ("schema", _check_schema, ("schema", "validation")),
    ("subresources", _check_scale, ("subresources", "subresources")),
    ("additionalPrinterColumns", _check_columns, ("additionalPrinterColumns", "additionalPrinterColumns")),
    ("selectableFields", _check_selectable, ("selectableFields", "selectableFields")),
)
"""Fields that may differ between versions: their validation, and their paths in a version and at the top level."""


def _has_defaults(schema: object) -> bool:
    """Whether a schema has a default at any depth."""
    if isinstance(schema, list):
        return any(map(_has_defaults, schema))
    if not isinstance(schema, dict):
        return False
    below = [*(schema.get("properties") or {}).values(), *(schema.get(key) for key in _INSIDE)]
    return schema.get("default") is not None or any(map(_has_defaults, below))


_INSIDE = ("items", "additionalProperties", "not", "allOf", "anyOf", "oneOf")


def _schema(version: JsonObject) -> JsonObject | None:
    schema: JsonObject | None = (version.get("schema") or {}).get("openAPIV3Schema")
    return schema


def _without_schemas(versions: list[JsonObject]) -> list[JsonObject]:
    """Return the versions as messages show them, without schemas."""
    return [
        {
            "Name": v.get("name", ""),
            "Served": bool(v.get("served")),
            "Storage": bool(v.get("storage")),
            "Deprecated": bool(v.get("deprecated")),
            "DeprecationWarning": v.get("deprecationWarning"),
            "Schema": None,
            "Subresources": None,
            "AdditionalPrinterColumns": None,
            "SelectableFields": None,
        }
        for v in versions
    ]


def _validate_names(names: JsonObject) -> Iterator[Cause]:
    """Yield what is wrong with the names of a definition."""
    field = "spec.names"
    for key in ("plural", "singular"):
        label = names.get(key, "")
        label_field = f"{field}.{key}"
        if not label:
            yield api_errors.required(label_field)
        else:
            for problem in validation.dns_1035_label(label):
                yield api_errors.invalid_value(label_field, label, problem)
    for key in ("kind", "listKind"):
        name = names.get(key, "")
        key_path = f"{field}.{key}"
        if not name:
            yield api_errors.required(key_path)
        else:
            for text in validation.dns_1035_label(name.lower()):
                reason = f"may have mixed case, but should otherwise match: {text}"
                yield api_errors.invalid_value(key_path, name, reason)
    yield from _labels(names, "shortNames")
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        text = "kind and listKind may not be the same"
        yield api_errors.invalid_value(f"{field}.listKind", names["listKind"], text)
    yield from _labels(names, "categories")


def _labels(names: JsonObject, key: str) -> Iterator[Cause]:
    for index, name in enumerate(names.get(key) or ()):
        for text in validation.dns_1035_label(name):
            yield api_errors.invalid_value(f"spec.names.{key}[{index}]", name, text)


def _validate_stored(obj: JsonObject) -> Iterator[Cause]:
    """Yield what is wrong with the stored versions of a definition's status."""
    stored = (obj.get("status") or {}).get("storedVersions")
    if not stored:
        yield api_errors.invalid_value("status.storedVersions", stored, "must have at least one stored version")
        return
    served = [v.get("name") for v in obj["spec"].get("versions") or ()]
    desired = _storage_versions(obj)
    if len(desired) != 1 and len(desired) > 0:
        yield api_errors.invalid_value(
            "status.storedVersions", stored[:1], f"must have the storage version {desired[-1]}"
        )
    for index, name in enumerate(stored):
        if name not in served:
            text = (
                f"missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions"
                f" until a storage migration ensures no data remains persisted in {name} and removes {name} from"
                " status.storedVersions"
            )
            yield api_errors.invalid_value(f"status.storedVersions[{index}]", name, text)
