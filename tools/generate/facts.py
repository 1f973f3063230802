"""The facts that no API server serves: kept in ``sources/``, and renewed from a checkout of Kubernetes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from envtest.data.table import without_header
from tools.generate.column_facts import KindColumns, parse_columns_facts, render_columns_facts
from tools.generate.errors import GenerateError
from tools.generate.extract.bootstrap_policy import read_policy
from tools.generate.extract.go_structs import read_structs
from tools.generate.extract.printers import read_columns
from tools.generate.extract.published import read_unstable
from tools.generate.header import Provenance, version_of
from tools.generate.policy_facts import PolicyObject, parse_policy_facts, render_policy_facts
from tools.generate.struct_facts import Packages, parse_structs, render_structs
from tools.generate.unstable import UnstableKinds, parse_unstable, render_unstable

FOLDER = Path("tools/generate/sources")
STRUCTS, COLUMNS, POLICY, UNSTABLE = "structs.txt", "columns.jsonl", "policy.jsonl", "unstable.jsonl"
_MAKER = "make generate KUBERNETES=CHECKOUT"

Texts = Mapping[str, str]
"""The text of each file in ``sources/`` by name."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the files in ``sources/`` say."""

    packages: Packages
    columns: tuple[KindColumns, ...]
    policy: tuple[PolicyObject, ...]
    unstable: UnstableKinds
    versions: Mapping[str, str]
    """The version of Kubernetes that each file is of, by the file's name."""


def minor(version: str) -> str:
    """A version without its patch.

    >>> minor("v1.36.2"), minor("v1.36")
    ('v1.36', 'v1.36')
    """
    return ".".join(version.split(".")[:2])


def read_facts(root: Path) -> Texts:
    """The files in the repository at `root`."""
    return {name: (root / FOLDER / name).read_text() for name in (STRUCTS, COLUMNS, POLICY, UNSTABLE)}


def parse_facts(texts: Texts) -> Facts:
    """The facts in the texts. Raises `GenerateError` if they are of different minor versions."""
    versions = {name: version_of(text) for name, text in texts.items()}
    if len({minor(version) for version in versions.values()}) != 1:
        raise GenerateError(f"the files in {FOLDER} are of different versions: {versions}")
    body = {name: without_header(text) for name, text in texts.items()}
    return Facts(
        parse_structs(body[STRUCTS]),
        tuple(parse_columns_facts(body[COLUMNS])),
        tuple(parse_policy_facts(body[POLICY])),
        parse_unstable(body[UNSTABLE]),
        versions,
    )


def extract_facts(checkout: Path, schemas: Iterable[str], served: Iterable[tuple[str, str]], version: str) -> Texts:
    """The same texts from a checkout: the structs of `schemas`, and the columns of the `served` (folder, kind)."""
    kept = set(served)
    columns: dict[tuple[str, str], KindColumns] = {}
    try:
        names = set(schemas)
        structs = render_structs(read_structs(checkout, names))
        unstable = read_unstable(checkout, names)
        for kind in read_columns(checkout):
            if (kind.group, kind.kind) in kept:
                columns.setdefault((kind.group, kind.kind), kind)
        policy = read_policy(checkout)
    except OSError as error:
        raise GenerateError(f"{checkout} is not a whole checkout of kubernetes/kubernetes: {error}") from error
    sources = (
        (STRUCTS, "go_structs.py", "the packages of the served types, in staging/src/k8s.io", structs),
        (
            COLUMNS,
            "printers.py",
            "pkg/printers/internalversion/printers.go and the descriptions in staging/src",
            render_columns_facts(columns.values()),
        ),
        (
            POLICY,
            "bootstrap_policy.py",
            "plugin/pkg/auth/authorizer/rbac/bootstrappolicy/testdata",
            render_policy_facts(policy),
        ),
        (
            UNSTABLE,
            "published.py",
            "api/openapi-spec/swagger.json and the types in staging/src/k8s.io",
            render_unstable(unstable),
        ),
    )
    return {
        name: Provenance(f"tools/generate/extract/{module}", [source], version, _MAKER).header() + text
        for name, module, source, text in sources
    }


def version_of_checkout(checkout: Path) -> str:
    """The tag of a git checkout. Raises `GenerateError` if git does not tell it."""
    command = ["git", "-C", str(checkout), "describe", "--tags", "--exact-match", "--match", "v*"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - no shell, own words
    if result.returncode:
        raise GenerateError(
            f"git does not tell the version of {checkout} ({result.stderr.strip()}):"
            " check out a tag, or add KUBERNETES_VERSION=v1.2.3"
        )
    return result.stdout.strip()
