"""The modules of ``opsdk/api``: typed classes of the built-in kinds, and where each kind is. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from opsdk.cli.generate.types import TypeGenerator
from tools.generate.header import MAKER, Provenance
from tools.generate.patches import render_patches
from tools.generate.resources import Row

_PACKAGE = "opsdk.api"


def render_kinds(
    schemas: Mapping[str, Mapping[str, Any]], rows: Iterable[Row], provenance: Provenance
) -> dict[str, str]:
    """Path below ``opsdk/api`` -> source text."""
    generator = TypeGenerator(
        schemas,
        package=_PACKAGE,
        source=provenance.origin(),
        maker=MAKER,
        built_in=None,
        cluster_scoped={(row["group"], row["version"], row["kind"]) for row in rows if not row["namespaced"]},
    )
    files = generator.files()
    kinds = generator.kinds()
    lines = [
        '"""Where the typed built-in kinds are.',
        "",
        provenance.sentence(),
        '"""',
        "",
        "from opsdk.apimachinery.gvk import GroupVersionKind",
        "",
        "BUILT_IN: dict[GroupVersionKind, str] = {",
    ]
    lines += [f"    GroupVersionKind{gvk!r}: {where!r}," for gvk, where in sorted(kinds.items())]
    files["generated_kinds.py"] = "\n".join(lines) + "\n}\n"
    files["generated_patches.py"] = render_patches(schemas, provenance.sentence())
    return files
