"""The protobuf messages of the built-in kinds, from the generated table."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial

from envtest.data.fields import pointers
from envtest.data.table import read_blocks
from envtest.data.versions import DEFAULT
from opsdk.apiserver.serializer.protobuf import META, ProtobufField, ProtobufReader
from opsdk.apiserver.serializer.protobuf_writer import ProtobufWriter, enveloped
from opsdk.structured_merge.value import JsonValue

_PACKAGES = {"apiextensions-apiserver": "apiextensions_apiserver", "kube-aggregator": "kube_aggregator"}


@cache
def _blocks(version: str) -> Mapping[str, str]:
    return read_blocks("messages", version)


_SCALARS = frozenset({"string", "bytes", "bool", "int32", "int64"})
_INLINE = frozenset(
    {
        "deviceConfiguration", "ephemeralContainerCommon", "handler", "ingressRuleValue", "localObjectReference",
        "persistentVolumeSource", "rule", "ruleWithOperations", "volumeSource",
    }
)  # fmt: skip
"""Embedded messages: their fields are inline in JSON."""
_SHOWN = {
    "Expression": "expression",
    "Name": "name",
    "Raw": "raw",
    "Webhooks": "webhooks",
    "aPIGroup": "apiGroup",
    "uID": "uid",
}
_SCHEMA_SHOWN = {
    "ref": "$ref",
    "schema": "$schema",
    "xKubernetesEmbeddedResource": "x-kubernetes-embedded-resource",
    "xKubernetesIntOrString": "x-kubernetes-int-or-string",
    "xKubernetesListMapKeys": "x-kubernetes-list-map-keys",
    "xKubernetesListType": "x-kubernetes-list-type",
    "xKubernetesMapType": "x-kubernetes-map-type",
    "xKubernetesPreserveUnknownFields": "x-kubernetes-preserve-unknown-fields",
    "xKubernetesValidations": "x-kubernetes-validations",
}
"""JSON names that differ from the table, which has Go's names."""


def _map_kind(kind: str, package: str) -> str:
    """Return the key and value types of a map; messages with their full names."""
    key, _, value = kind.removeprefix("map<").removesuffix(">").partition(",")
    if value.startswith("."):
        value = value[1:]
    elif value not in _SCALARS:
        value = f"{package}.{value}"
    return f"{key},{value}"


@cache
def fields_of(message: str, version: str = DEFAULT) -> Mapping[int, ProtobufField] | None:
    """Return the fields of a message by number."""
    block = _blocks(version).get(message)
    if block is None:
        return None
    package, _, short = message.rpartition(".")
    names = _SCHEMA_SHOWN if short == "JSONSchemaProps" else _SHOWN
    fields = {}
    for line in block.splitlines()[1:]:
        number, name, kind, *marks = line.split()
        mapped, repeated = "map" in marks, "*" in marks
        inline = not repeated and name in _INLINE and kind.endswith(name[1:])
        fields[int(number)] = ProtobufField(
            names.get(name, name),
            _map_kind(kind, package) if mapped else kind,
            repeated=repeated,
            map=mapped,
            inline=inline,
        )
    return fields


def message_of(schema: str) -> str:
    """Return the message of a schema: ``k8s.io.api.core.v1.Pod`` for ``io.k8s.api.core.v1.Pod``."""
    name = f"k8s.io.{schema.removeprefix('io.k8s.')}"
    for written, spoken in _PACKAGES.items():
        name = name.replace(written, spoken)
    return name


def _is_plain(version: str, message: str, field: str) -> bool:
    name = f"io.k8s.{message.removeprefix('k8s.io.')}"
    for written, spoken in _PACKAGES.items():
        name = name.replace(spoken, written)
    return field not in pointers(name, version)


@cache
def reader(version: str = DEFAULT) -> ProtobufReader:
    """Return the decoder of the Protobuf bodies of a version's built-in kinds."""
    return ProtobufReader(partial(fields_of, version=version), partial(_is_plain, version))


@cache
def _writer(version: str) -> ProtobufWriter:
    return ProtobufWriter(partial(fields_of, version=version))


_GROUPS = {
    "": "k8s.io.api.core",
    "apiextensions.k8s.io": "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions",
    "apiregistration.k8s.io": "k8s.io.kube_aggregator.pkg.apis.apiregistration",
    "internal.apiserver.k8s.io": "k8s.io.api.apiserverinternal",
}
"""Packages that do not follow from the first label of their group."""
_META_KINDS = frozenset({"Status", "PartialObjectMetadata", "PartialObjectMetadataList", "WatchEvent"})


def message_for(api_version: str, kind: str) -> str:
    """Return the message of a kind.

    >>> message_for("apps/v1", "DeploymentList")
    'k8s.io.api.apps.v1.DeploymentList'
    """
    if kind in _META_KINDS:
        return f"{META}.{kind}"
    group, _, version = api_version.rpartition("/")
    package = _GROUPS.get(group) or f"k8s.io.api.{group.partition('.')[0]}"
    return f"{package}.{version}.{kind}"


def write_protobuf(tree: Mapping[str, JsonValue], version: str = DEFAULT) -> bytes:
    """Encode an object, a list or a Status as Protobuf; raises `EncodeError` for a kind without a message."""
    api_version, kind = tree["apiVersion"], tree["kind"]
    return enveloped(api_version, kind, _writer(version).write(tree, message_for(api_version, kind)))
