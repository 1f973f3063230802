"""Converts names of OpenAPI documents to Python names. Pure."""

from __future__ import annotations

import keyword
import re

_PLURAL_ACRONYM = re.compile(r"((?<![A-Z])[A-Z]{2,}+)s(?=$|[A-Z])")
# An attribute with such a name would shadow the type in later annotations.
_TYPE_NAMES = {"bool", "bytes", "dict", "float", "int", "list", "str"}
_WORD_END = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake(name: str) -> str:
    """Return the attribute for a wire name.

    >>> [snake(n) for n in ("clusterIPs", "podIP", "nonResourceURLs", "$ref", "from", "x-kubernetes-map-type")]
    ['cluster_ips', 'pod_ip', 'non_resource_urls', 'ref', 'from_', 'x_kubernetes_map_type']
    """
    flat = _PLURAL_ACRONYM.sub(lambda m: m.group(1).capitalize() + "s", name)
    words = re.sub(r"\W+", "_", _WORD_END.sub("_", flat)).strip("_").lower()
    if not words or words[0].isdigit():
        words = f"field_{words}"
    return f"{words}_" if keyword.iskeyword(words) or words in _TYPE_NAMES else words


def camel(name: str) -> str:
    """Return the wire name that msgspec's ``rename="camel"`` gives an attribute."""
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def pascal(*names: str) -> str:
    """Return a class name made of the parts of a path."""
    return "".join(n[:1].upper() + n[1:] for name in names for n in re.split(r"\W+", name) if n)


def stability_of(version: str) -> str:
    """Return the stability level of an API version, or of a name that has one: ``alpha``, ``beta`` or ``stable``.

    >>> [stability_of(name) for name in ("v1beta2", "v2", "io.k8s.api.resource.v1alpha3.DeviceTaint")]
    ['beta', 'stable', 'alpha']
    """
    return next((level for level in ("alpha", "beta") if level in version), "stable")


def module_of(schema: str) -> tuple[str, str, str]:
    """Return package, module and class for the name of a component schema.

    >>> module_of("io.k8s.api.apps.v1.Deployment")
    ('apps', 'v1', 'Deployment')
    >>> module_of("io.cert-manager.v1.Certificate")
    ('cert_manager_io', 'v1', 'Certificate')
    """
    prefix, _, name = schema.rpartition(".")
    group, _, version = prefix.rpartition(".")
    if group.startswith("io.k8s.api.") or ".pkg.apis." in group:
        package = group.rpartition(".")[2]
    elif group.startswith("io.k8s.apimachinery.pkg."):
        package, version = "apimachinery", "v1"
    else:
        package = re.sub(r"\W", "_", ".".join(reversed(group.split(".")))) or "core"
    return package, re.sub(r"\W", "_", version) or "v1", pascal(name)
