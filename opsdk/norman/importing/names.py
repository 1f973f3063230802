"""Names of schemas and fields.

Upstream: github.com/rancher/norman/types/convert/convert.go (LowerTitle, Capitalize)
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[^0-9A-Za-z]+")


def capitalize(name: str) -> str:
    """Return a name with a capital first letter.

    >>> capitalize("replicaCount")
    'ReplicaCount'
    """
    return name[:1].upper() + name[1:]


def lower_title(name: str) -> str:
    """Return the name of a class as the id of a schema: the capitals at its start, except the next word's, are lowered.

    >>> [lower_title(name) for name in ("Catalog", "NFSVolume", "DNS", "site")]
    ['catalog', 'nfsVolume', 'dns', 'site']
    """
    length = next((i for i, letter in enumerate(name) if not letter.isupper()), len(name))
    count = length if length in (0, 1, len(name)) else length - 1
    return name[:count].lower() + name[count:]


def field_name(attribute: str) -> str:
    """Return the external name of an attribute: camelCase, with ``Id`` for ``ID`` at the end.

    >>> [field_name(name) for name in ("cluster_id", "clusterID", "replica_count", "ID", "name")]
    ['clusterId', 'clusterId', 'replicaCount', 'id', 'name']
    """
    first, *rest = attribute.strip("_").split("_")
    name = first + "".join(capitalize(word) for word in rest)
    if name == "ID":
        return "id"
    name = f"{name.removesuffix('ID')}Id" if name.endswith("ID") else name
    return name[:1].lower() + name[1:]


def nested_id(schema_id: str, name: str) -> str:
    """Return the id of the schema of a field whose type has no name of its own.

    >>> nested_id("site", "pod-template")
    'sitePodTemplate'
    """
    return schema_id + "".join(capitalize(word) for word in _WORD.split(name) if word)


def container_type(container: str, element: str) -> str:
    """Return the type of a map or an array.

    The options of a field hold for its value or the items of its list. An enum deeper inside has none: it is a string.

    >>> container_type("array", "enum"), container_type("map", "enum"), container_type("array", "map[site]")
    ('array[enum]', 'map[string]', 'array[map[site]]')
    """
    stem = element.rstrip("]")
    is_enum = stem == "enum" or stem.endswith("[enum")
    if is_enum and (container, element) != ("array", "enum"):
        element = f"{stem.removesuffix('enum')}string{element[len(stem) :]}"
    return f"{container}[{element}]"
