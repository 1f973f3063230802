"""The fields of a version whose feature gate is off by default. The server drops them, as kube-apiserver does.

The table has a line for each type with ``field=gate`` for its fields. The default version has no such table: the rules
of its kinds know its gates.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from envtest.data.table import read_table
from envtest.data.versions import DEFAULT


@cache
def gated_fields(version: str) -> Mapping[str, Mapping[str, str]]:
    """Return the gates of a version's fields, by type and field.

    >>> gated_fields("1.37")["io.k8s.api.core.v1.EmptyDirVolumeSource"]
    {'mode': 'EmptyDirVolumeMode'}
    """
    if version == DEFAULT:
        return {}
    lines = (line.split(" ") for line in read_table("gates", version).splitlines())
    return {name: dict(word.split("=") for word in words) for name, *words in lines}
