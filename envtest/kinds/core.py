# ruff: noqa: ARG002 - hooks take what the store gives, whether a kind needs it or not
"""Strategies of the small core kinds: namespaces, configuration, leases, claims, accounts."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence

from envtest.kinds import rules
from envtest.kinds.base import TableStrategy
from envtest.tables.load import Row
from opsdk.apimachinery import validation
from opsdk.apiserver import api_errors
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.serializer.documents import json_kind
from opsdk.apiserver.serializer.json_errors import first_fault
from opsdk.errors import Cause
from opsdk.structured_merge.value import JsonObject

_LABEL = "kubernetes.io/metadata.name"
_PROTECTED = ("default", "kube-system", "kube-public")
_MEBIBYTE = 1024 * 1024


class NamespaceStrategy(TableStrategy):
    """Active until it is deleted; goes when its own finalizers are gone."""

    def __init__(self, row: Row, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self.selectable = {"status.phase": lambda obj: str((obj.get("status") or {}).get("phase", ""))}

    def name_rule(self, name: str, *, prefix: bool = False) -> Sequence[str]:
        """Labels."""
        return validation.dns_label(name, prefix=prefix)

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Phase, finalizer."""
        finalizers = list((obj.get("spec") or {}).get("finalizers") or [])
        if "kubernetes" not in finalizers:
            finalizers.append("kubernetes")
        obj["spec"] = {"finalizers": finalizers}
        obj["status"] = {"phase": "Active"}

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Finalizers and status have their own resources."""
        obj["spec"] = old.get("spec") or {}
        obj["status"] = old.get("status") or {}

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """Its own finalizers."""
        return list(_finalizers((obj.get("spec") or {}).get("finalizers") or (), "spec.finalizers"))

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """They are not changed here."""
        return ()

    def check_delete(self, context: Context, obj: JsonObject) -> None:
        """Some must stay."""
        name = obj["metadata"]["name"]
        if name in _PROTECTED:
            raise api_errors.forbidden(self.info, name, "this namespace may not be deleted")

    def mark_deleted(self, context: Context, obj: JsonObject) -> None:
        """Terminating."""
        obj["metadata"].pop("deletionGracePeriodSeconds", None)
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}

    def removable(self, obj: JsonObject) -> bool:
        """When no finalizer of its spec is left."""
        return not (obj.get("spec") or {}).get("finalizers")

    def validate_status(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """The phase follows from the mark."""
        phase = (obj.get("status") or {}).get("phase", "")
        if not obj["metadata"].get("deletionTimestamp") and phase != "Active":
            text = "may only be 'Active' if `deletionTimestamp` is empty"
            return [api_errors.invalid_value("status.Phase", phase, text)]
        if obj["metadata"].get("deletionTimestamp") and phase != "Terminating":
            text = "may only be 'Terminating' if `deletionTimestamp` is not empty"
            return [api_errors.invalid_value("status.Phase", phase, text)]
        return []


def label_namespace(obj: JsonObject) -> None:
    """The label with its name."""
    meta = obj.setdefault("metadata", {})
    if meta.get("name"):
        meta["labels"] = {**(meta.get("labels") or {}), _LABEL: meta["name"]}


class FinalizeStrategy(NamespaceStrategy):
    """Updates of ``namespaces/finalize``: only the finalizers of the spec."""

    def __init__(self, row: Row) -> None:
        super().__init__(row, has_status=False)

    @property
    def reset_fields(self) -> Sequence[str]:
        """The status has its own resource."""
        return ("status",)

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Everything else stays."""
        obj["status"] = old.get("status") or {}

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Each finalizer is known, or has a domain."""
        found = enumerate((obj.get("spec") or {}).get("finalizers") or ())
        return [cause for index, name in found for cause in _finalizers((name,), f"spec.finalizers[{index}]")]


def _finalizers(found: Sequence[str], path: str) -> Iterator[Cause]:
    for name in found:
        wrong = validation.qualified_name(name)
        yield from rules.each(wrong, name, path)
        if not wrong and "/" not in name and name not in ("kubernetes", "orphan", "foregroundDeletion"):
            text = "name is neither a standard finalizer name nor is it fully qualified"
            yield api_errors.invalid_value(path, name, text)


def _key_problems(field: str, data: Mapping[str, object], others: Mapping[str, object]) -> Iterator[Cause]:
    for key in sorted(data):
        for text in rules.config_key_problems(key):
            yield api_errors.invalid_value(f"{field}[{key}]", key, text)
        if key in others:
            yield api_errors.invalid_value(f"{field}[{key}]", key, "duplicate of key present in binaryData")


def _decoded_size(data: Mapping[str, str | None]) -> int:
    """Bytes behind base64; a null stands for none."""
    return sum(len(base64.b64decode(v)) for v in data.values() if v)


def _immutable(obj: JsonObject, old: JsonObject, fields: Sequence[str]) -> Iterator[Cause]:
    if not old.get("immutable"):
        return
    text = "field is immutable when `immutable` is set"
    if not obj.get("immutable"):
        yield api_errors.not_allowed("immutable", text)
    for field in fields:
        if (obj.get(field) or {}) != (old.get(field) or {}):
            yield api_errors.not_allowed(field, text)


class ConfigMapStrategy(TableStrategy):
    """Keys, size, immutability."""

    def __init__(self, row: Row, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """See the class."""
        data, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        found = [*_key_problems("data", data, binary), *_key_problems("binaryData", binary, {})]
        size = sum(len(v.encode()) for v in data.values()) + _decoded_size(binary)
        if size > _MEBIBYTE:
            found.append(api_errors.too_long("[]", _MEBIBYTE))
        return found

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """Immutable ones do not change."""
        return [*_immutable(obj, old, ("data", "binaryData")), *self.validate(context, obj)]


_SECRET_KEYS = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/dockercfg": (".dockercfg",),
}


_DOCKER = {"kubernetes.io/dockerconfigjson": ".dockerconfigjson", "kubernetes.io/dockercfg": ".dockercfg"}


class SecretStrategy(TableStrategy):
    """Types with their keys; plain strings become data."""

    def __init__(self, row: Row, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)
        self.selectable = {"type": lambda obj: str(obj.get("type", ""))}

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """See the class."""
        data = obj.get("data") or {}
        found = list(_key_problems("data", data, {}))
        if _decoded_size(data) > _MEBIBYTE:
            found.append(api_errors.too_long("data", _MEBIBYTE))
        kind = obj.get("type", "")
        wanted = _SECRET_KEYS.get(kind, ())
        found.extend(api_errors.required(f"data[{key}]") for key in wanted if key not in data)
        if kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
            found.append(api_errors.required("data[ssh-privatekey]"))
        found.extend(_docker_problems(kind, data))
        if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & set(data):
            found.append(api_errors.required("data[username]"))
            found.append(api_errors.required("data[password]"))
        if kind == "kubernetes.io/service-account-token":
            annotations = obj["metadata"].get("annotations") or {}
            if not annotations.get("kubernetes.io/service-account.name"):
                found.append(api_errors.required("metadata.annotations[kubernetes.io/service-account.name]"))
        return found

    def warnings(self, context: Context, obj: JsonObject, old: JsonObject | None) -> Sequence[str]:
        """Certificates that are none."""
        if obj.get("type") != "kubernetes.io/tls" or (old is not None and old.get("data") == obj.get("data")):
            return ()
        data = obj.get("data") or {}
        for key, word in (("tls.crt", "certificate"), ("tls.key", "key")):
            if b"-----BEGIN " not in base64.b64decode(data.get(key, "")):
                return (f"tls: failed to find any PEM data in {word} input",)
        return ()

    def validate_update(self, context: Context, obj: JsonObject, old: JsonObject) -> Sequence[Cause]:
        """The type stays; immutable ones do not change."""
        kind = rules.unchanged(obj, old, "type")
        return [*kind, *_immutable(obj, old, ("data",)), *self.validate(context, obj)]


def _docker_problems(kind: str, data: Mapping[str, str]) -> Iterator[Cause]:
    """Credentials for registries are JSON; what is in them is not shown."""
    key = _DOCKER.get(kind, "")
    if key not in data:
        return
    raw = base64.b64decode(data[key] or "")
    why = ""
    try:
        read = json.loads(raw)
    except ValueError:
        why = first_fault(raw) or "unexpected end of JSON input"
    else:
        if read is not None and not isinstance(read, dict):
            why = f"json: cannot unmarshal {json_kind(read)} into Go value of type map[string]interface {{}}"
    if why:
        yield api_errors.invalid_value(f"data[{key}]", "<secret contents redacted>", why)


def secret_strings(obj: JsonObject) -> None:
    """``stringData`` goes into ``data`` and is never seen again."""
    strings = obj.pop("stringData", None)
    if strings:
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in strings.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


class LeaseStrategy(TableStrategy):
    """Durations are positive; what only coordinated elections know is dropped, because they are off."""

    def __init__(self, row: Row, has_status: bool) -> None:
        super().__init__(row, has_status=has_status)

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """See the class."""
        super().prepare_for_create(context, obj)
        _drop_coordination(obj)

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """See the class."""
        super().prepare_for_update(context, obj, old)
        _drop_coordination(obj)

    def validate(self, context: Context, obj: JsonObject) -> Sequence[Cause]:
        """See the class."""
        spec = obj.get("spec") or {}
        found: list[Cause] = []
        duration, transitions = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if duration is not None and duration <= 0:
            found.append(api_errors.invalid_value("spec.leaseDurationSeconds", duration, "must be greater than 0"))
        if transitions is not None and transitions < 0:
            text = "must be greater than or equal to 0"
            found.append(api_errors.invalid_value("spec.leaseTransitions", transitions, text))
        return found


def _drop_coordination(obj: JsonObject) -> None:
    for key in ("strategy", "preferredHolder"):
        (obj.get("spec") or {}).pop(key, None)
