"""Compares an object that an operator registered with its declaration: what is restored, and what is reported. Pure.

A JSON patch has ``test`` operations with the values that were read. It changes only the fields of the operator, and
fails if another client changed them concurrently.

The address of the webhook server, the conversion, and ``served`` of a version that a controller reads are restored.
Everything else belongs to the installation: it is reported. During an update, replicas of two versions run, so a
replica must not undo what the next version declares: ``served`` in a definition with a version that it does not know
stays as it is.

The contents of a webhook configuration, other than the address and the ``caBundle``, are reported: ``rules``,
``failurePolicy``, selectors and so on. The next version of the operator may declare others while replicas of this one
run, and an administrator who sets ``failurePolicy: Ignore`` during an outage must win. Fields that a schema lost are
reported too: only a complete definition brings them back, and the installation has it.

The storage version is never restored. A webhook converts between stored and served versions, so nothing is lost while
it is another one; without a webhook, a version with fewer fields is critical. But each change of it leaves objects in
both forms and a list of ``storedVersions`` that only a migration shortens, and the replicas of two versions of the
operator would change it in turn.

Upstream: k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1/types.go (CustomResourceConversion; v1.36)
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from opsdk.apimachinery.crd import schema_for
from opsdk.apimachinery.object import TypedObject
from opsdk.structured_merge.value import JsonObject, JsonValue
from opsdk.webhook.certificates.injection import InjectionKind, InjectionTarget, injection_patch, is_called_by
from opsdk.webhook.configurations import WebhookClientConfig, conversion_stanza

_CONVERSION = "/spec/conversion"
_APPLY_DEFINITION = "apply the CustomResourceDefinition of this version"
_RECREATE_DEFINITION = "the scope cannot change: delete the definition with its objects, and apply this version's"
_APPLY_CONFIGURATION = "apply the configuration of this version"
_APPLY_WEBHOOK = "apply the configuration of this version, or declare the value in WebhookRule"
_ADD_CA_BUNDLE = "start the operator with --webhook-service, or use cert-manager"
_SHOWN: Final = 3
"""The fields of a schema that one fault names."""
_DEFAULTS: Final[JsonObject] = {
    "rules": [],
    "sideEffects": None,
    "admissionReviewVersions": [],
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "matchConditions": [],
    "timeoutSeconds": 10,
    "reinvocationPolicy": "Never",
}
"""The compared fields of a webhook, with the values that the server sets."""
_DEFAULT_PORT: Final = 443
_EMPTY: Final[tuple[JsonValue, ...]] = (None, {}, [])
"""Values that the server stores and leaves out alike."""


class RegisteredVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a CustomResourceDefinition.

    Attributes:
        name: such as ``v1``.
        used: a controller of the operator reads it, so it must be served.
        stored: objects are stored in it.
        subresources: of ``status`` and ``scale``.
        representation: the class of its objects, whose fields the schema must have; None without a class.
    """

    name: str
    used: bool = False
    stored: bool = False
    subresources: tuple[str, ...] = ()
    representation: type[TypedObject] | None = None


class RegisteredWebhook(NamedTuple):
    """A webhook of a configuration.

    Attributes:
        name: of the webhook.
        path: where the operator serves it.
        fields: the other declared fields, as in the configuration.
    """

    name: str
    path: str
    fields: JsonObject


class RegisteredObject(msgspec.Struct, frozen=True, kw_only=True):
    """A definition or configuration that the operator registered, with the parts that it depends on.

    Attributes:
        target: its kind and name.
        converted: a converter of the operator converts the versions of the definition.
        versions: of the definition.
        scope: of the definition; empty if it is not compared.
        webhooks: of a configuration.
    """

    target: InjectionTarget
    converted: bool = False
    versions: tuple[RegisteredVersion, ...] = ()
    scope: str = ""
    webhooks: tuple[RegisteredWebhook, ...] = ()


class RegistrationFault(NamedTuple):
    """A difference that the operator does not restore.

    Attributes:
        text: the observed state.
        advice: what to do.
        critical: the operator does not work, or objects lose fields: the replica becomes unready. The others occur
            during an ordinary update too, where unready replicas would be an outage.
    """

    text: str
    advice: str
    critical: bool = True


class RegistrationDiff(NamedTuple):
    """The result for one object.

    Attributes:
        patch: the JSON patch that restores the object; empty if nothing is to be restored.
        restores: what the patch restores.
        faults: what it does not restore.
    """

    patch: list[JsonObject]
    restores: str
    faults: tuple[RegistrationFault, ...]


def compare(
    declared: RegisteredObject,
    tree: JsonObject | None,
    client_config: WebhookClientConfig | None,
    *,
    was_seen: bool = False,
) -> RegistrationDiff:
    """Compare an object in the cluster with its declaration.

    Args:
        declared: a definition or webhook configuration of the operator.
        tree: the object; None if it does not exist.
        client_config: how the API server reaches this server, with the current ``caBundle``. None if the operator
            does not know it, because other programs issue its certificates: then nothing is restored.
        was_seen: this process saw the object before. An object that is not created yet is not critical.
    """
    kind = declared.target.kind
    if tree is None:
        return RegistrationDiff([], "", (_missing(declared, was_seen=was_seen),))
    unserved: dict[str, int] = {}
    if kind is InjectionKind.CONVERSION:
        unserved = _unserved(declared, tree) if client_config is not None else {}
        versions = version_faults(declared, tree, restored=unserved)
        faults = [*versions, *conversion_faults(declared, tree, client_config)]
    else:
        faults = list(webhook_faults(declared, tree, client_config))
    if client_config is None:
        return RegistrationDiff([], "", tuple(faults))
    what, patch = "spec.conversion", []
    if kind is InjectionKind.CONVERSION:
        patch = _conversion_patch(declared, tree, client_config)
    if not patch:
        what, patch = "the caBundle", injection_patch(declared.target, tree, client_config, client_config.ca_bundle)
    restored = ([what] if patch else []) + [f"served of {name}" for name in unserved]
    served = [operation for name, index in unserved.items() for operation in _served_patch(name, index)]
    return RegistrationDiff([*patch, *served], " and ".join(restored), tuple(faults))


def _missing(declared: RegisteredObject, *, was_seen: bool) -> RegistrationFault:
    if declared.target.kind is InjectionKind.CONVERSION:
        advice = "apply it: opsdk generate crd MODULE:CLASS | kubectl apply -f -"
        return RegistrationFault("does not exist", advice, was_seen)
    if declared.target.kind is InjectionKind.API_SERVICE:
        return RegistrationFault("does not exist", "apply it", was_seen)
    return RegistrationFault("does not exist: the API server calls no webhook", "opsdk generate manifests", was_seen)


# ------------------------------------------------------------------ definitions
def version_faults(
    declared: RegisteredObject, tree: JsonObject, *, restored: Container[str] = ()
) -> Iterator[RegistrationFault]:
    """Report another scope, versions that are not served and not `restored`, and what served versions lack."""
    if declared.scope and (scope := tree["spec"].get("scope", declared.scope)) != declared.scope:
        yield RegistrationFault(f"has the scope {scope}, not {declared.scope}", _RECREATE_DEFINITION)
    versions = {version["name"]: version for version in tree["spec"].get("versions") or ()}
    for version in declared.versions:
        live = versions.get(version.name)
        if live is None or (not live.get("served") and version.name not in restored):
            yield RegistrationFault(f"does not serve {version.name}", _APPLY_DEFINITION, version.used)
            continue
        if version.stored and not live.get("storage"):
            yield _other_storage(declared, tree, live)
        for name in version.subresources:
            if name not in (live.get("subresources") or {}):
                yield RegistrationFault(f"has no subresource {name} in {version.name}", _APPLY_DEFINITION, version.used)
        if version.representation is not None and (lost := list(_lost_by(version.representation, live))):
            listed = ", ".join(lost[:_SHOWN]) + (f" and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else "")
            text = f"has no field {listed} in {version.name}, so the API server drops what the operator writes there"
            yield RegistrationFault(text, _APPLY_DEFINITION, critical=False)


def _lost_by(representation: type[TypedObject], live: JsonObject) -> Iterator[str]:
    """Yield the fields of a class that the schema of the version in the cluster lacks."""
    return _lost_fields(schema_for(representation), _schema_of(live), "")


def _other_storage(declared: RegisteredObject, tree: JsonObject, live: JsonObject) -> RegistrationFault:
    """Return the fault of another storage version. It is critical if objects lose fields: no webhook converts them."""
    stored: JsonObject = next((each for each in tree["spec"]["versions"] if each.get("storage")), {})
    text = f"stores {stored.get('name', 'no version')}, not {live['name']}"
    is_converted = declared.converted or (tree["spec"].get("conversion") or {}).get("strategy") == "Webhook"
    lost = "" if is_converted else next(_lost_fields(_schema_of(live), _schema_of(stored), ""), "")
    if lost:
        text += f", which has no field {lost}: objects lose it"
    return RegistrationFault(text, _APPLY_DEFINITION, critical=bool(lost))


def _schema_of(version: JsonObject) -> JsonObject:
    return (version.get("schema") or {}).get("openAPIV3Schema") or {}


def _lost_fields(schema: JsonObject, stored: JsonObject, path: str) -> Iterator[str]:
    """Yield the fields that only the first of two schemas has: the API server prunes them when it reads the object."""
    properties: JsonObject = stored.get("properties") or {}
    keeps_all = stored.get("x-kubernetes-preserve-unknown-fields") or stored.get("additionalProperties")
    for name, inner in (schema.get("properties") or {}).items():
        if name in properties:
            yield from _lost_fields(inner, properties[name], f"{path}{name}.")
        elif not keeps_all and (path or name not in ("apiVersion", "kind", "metadata")):
            yield f"{path}{name}"
    for inner in ("items", "additionalProperties"):
        if isinstance(schema.get(inner), dict) and isinstance(stored.get(inner), dict):
            yield from _lost_fields(schema[inner], stored[inner], path)


def _unserved(declared: RegisteredObject, tree: JsonObject) -> dict[str, int]:
    """Return the versions that a controller reads and that are no longer served, with their places in the list.

    The schema of such a version is still there, so serving it again loses nothing. Empty for a definition of another
    version of the operator, which has versions that this one does not know.
    """
    listed = [version["name"] for version in tree["spec"].get("versions") or ()]
    if set(listed) - {version.name for version in declared.versions}:
        return {}
    used = {version.name for version in declared.versions if version.used}
    versions = enumerate(tree["spec"].get("versions") or ())
    return {each["name"]: index for index, each in versions if each["name"] in used and not each.get("served")}


def _served_patch(name: str, index: int) -> Iterator[JsonObject]:
    """Return the operations that serve a version again."""
    pointer = f"/spec/versions/{index}"
    yield {"op": "test", "path": f"{pointer}/name", "value": name}
    yield {"op": "test", "path": f"{pointer}/served", "value": False}
    yield {"op": "replace", "path": f"{pointer}/served", "value": True}


def conversion_faults(
    declared: RegisteredObject, tree: JsonObject, client_config: WebhookClientConfig | None
) -> Iterator[RegistrationFault]:
    """Report a conversion that is not restored: the operator does not know its address, or another server converts."""
    if not declared.converted or not _needs_conversion(declared, tree):
        return
    conversion: JsonObject = tree["spec"].get("conversion") or {}
    if conversion.get("strategy") != "Webhook":
        if client_config is None:
            text = "has no spec.conversion with a webhook, so objects of other versions lose fields"
            yield RegistrationFault(text, _APPLY_DEFINITION)
        return
    config: JsonObject = (conversion.get("webhook") or {}).get("clientConfig") or {}
    if client_config is not None and not is_called_by(config, client_config):
        service: JsonObject = config.get("service") or {}
        other = config.get("url") or f"Service {service.get('namespace')}/{service.get('name')}"
        yield RegistrationFault(f"is converted by {other}, not by this operator", _APPLY_DEFINITION)
    elif client_config is None and config.get("service") and not config.get("caBundle"):
        yield RegistrationFault("has no caBundle for its conversion", _ADD_CA_BUNDLE, critical=False)


def _needs_conversion(declared: RegisteredObject, tree: JsonObject) -> bool:
    """Whether objects are converted between versions of the converter. A version that only other versions know is not.

    The next version of the operator may declare one version, without a conversion: that is not to be restored.
    """
    listed = {version["name"] for version in tree["spec"].get("versions") or ()}
    names = {version.name for version in declared.versions}
    return len(listed & names if names else listed) > 1


def _conversion_patch(
    declared: RegisteredObject, tree: JsonObject, client_config: WebhookClientConfig
) -> list[JsonObject]:
    """Return the patch that restores a missing conversion; empty if objects are converted by a webhook."""
    current: JsonObject | None = tree["spec"].get("conversion")
    if not declared.converted or not _needs_conversion(declared, tree) or (current or {}).get("strategy") == "Webhook":
        return []
    stanza = conversion_stanza(client_config)
    if current is None:
        # The server sets a default, so it is always there. A JSON patch cannot test that a member is absent.
        version = tree["metadata"].get("resourceVersion")
        test: JsonObject = {"op": "test", "path": "/metadata/resourceVersion", "value": version}
    else:
        test = {"op": "test", "path": _CONVERSION, "value": current}
    return [test, {"op": "add", "path": _CONVERSION, "value": stanza}]


# ------------------------------------------------------------------ webhook configurations
def registered_webhooks(configuration: JsonObject) -> tuple[RegisteredWebhook, ...]:
    """Return what a generated configuration declares. Its address has no path of its own."""
    return tuple(
        RegisteredWebhook(
            name=webhook["name"],
            path=_path_of(webhook["clientConfig"]),
            fields={name: value for name, value in webhook.items() if name in _DEFAULTS},
        )
        for webhook in configuration["webhooks"]
    )


def webhook_faults(
    declared: RegisteredObject, tree: JsonObject, client_config: WebhookClientConfig | None = None
) -> Iterator[RegistrationFault]:
    """Report webhooks that a configuration lacks, and the fields in which the others differ from the declaration.

    The next version of the operator may declare others, so nothing is critical.
    """
    webhooks: dict[str, JsonObject] = {webhook["name"]: webhook for webhook in tree.get("webhooks") or ()}
    if lacking := sorted(webhook.name for webhook in declared.webhooks if webhook.name not in webhooks):
        yield RegistrationFault(f"lacks {', '.join(lacking)}", _APPLY_CONFIGURATION, critical=False)
    for webhook in declared.webhooks:
        if (live := webhooks.get(webhook.name)) is None:
            continue
        for text in (*_address_differences(webhook, live["clientConfig"], client_config), *_differences(webhook, live)):
            yield RegistrationFault(f"has another {webhook.name}: {text}", _APPLY_WEBHOOK, critical=False)


def _differences(webhook: RegisteredWebhook, live: JsonObject) -> Iterator[str]:
    """Yield the declared fields that differ, with both values."""
    for name, default in _DEFAULTS.items():
        ours, theirs = (_sorted(without_empty(each.get(name, default))) for each in (webhook.fields, live))
        if ours != theirs:
            yield f"{name} is {shown(theirs)}, not {shown(ours)}"


def without_empty(value: JsonValue) -> JsonValue:
    """Return a value without empty members: the server stores and leaves them out alike."""
    if isinstance(value, dict):
        return {name: inner for name, each in value.items() if (inner := without_empty(each)) not in _EMPTY}
    return [without_empty(each) for each in value] if isinstance(value, list) else value


def _sorted(value: JsonValue) -> JsonValue:
    """Return a value with sorted lists: in no compared field of a webhook the order has a meaning."""
    if isinstance(value, dict):
        return {name: _sorted(each) for name, each in value.items()}
    return sorted(map(_sorted, value), key=shown) if isinstance(value, list) else value


def shown(value: JsonValue) -> str:
    """Return a value as faults show it."""
    return msgspec.json.encode(value, order="sorted").decode() if value not in _EMPTY else "empty"


def _address_differences(
    webhook: RegisteredWebhook, config: JsonObject, client_config: WebhookClientConfig | None
) -> Iterator[str]:
    """Yield how a ``clientConfig`` calls another server, port or path than that of the webhook."""
    service: JsonObject = config.get("service") or {}
    if client_config is not None and not is_called_by(config, client_config):
        other = config.get("url") or f"Service {service.get('namespace')}/{service.get('name')}"
        yield f"clientConfig calls {other}, not this operator"
        return
    path = _path_of(config)
    if path != webhook.path and not (
        config.get("url") and path.endswith(webhook.path)
    ):  # a URL may have a path before it
        yield f"clientConfig calls the path {path}, not {webhook.path}"
    if client_config is not None and client_config.service is not None:
        port = service.get("port", _DEFAULT_PORT)
        if port != client_config.service.port:
            yield f"clientConfig calls the port {port}, not {client_config.service.port}"


def _path_of(config: JsonObject) -> str:
    """Return the path of a ``clientConfig``."""
    return str((config.get("service") or {}).get("path") or urlsplit(config.get("url") or "").path or "/")


def ca_faults(tree: JsonObject) -> Iterator[RegistrationFault]:
    """Report webhooks without a ``caBundle``, which other programs should set."""
    for webhook in tree.get("webhooks") or ():
        if not webhook["clientConfig"].get("caBundle"):
            yield RegistrationFault(f"{webhook['name']} has no caBundle", _ADD_CA_BUNDLE)
