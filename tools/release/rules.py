"""What a release must fulfil, and what its files contain: values in, values out."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256

DEVELOPMENT = frozenset(["dev", "docs"])
"""Extras for work on opsdk itself; the others are for programs that use it."""
_VERSION = re.compile(r'^VERSION = "([^"]+)"$', re.MULTILINE)
_HEADING = re.compile(r"^## (\S+) - (\d{4}-\d{2}-\d{2})$", re.MULTILINE)


class ReleaseError(Exception):
    """A release cannot be made; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Clone:
    """The state of the clone that decides whether it can be released.

    Attributes:
        changes: the lines of ``git status --porcelain``.
        head: the commit that is checked out.
        version: the version that the package declares.
        changelog: the text of CHANGELOG.md.
        fragments: the files of docs/changes, each an unreleased change.
        tags: the commit of each tag.
        expected_tag: the tag that started the release; empty if a person started it.
    """

    changes: tuple[str, ...]
    head: str
    version: str
    changelog: str
    fragments: tuple[str, ...]
    tags: Mapping[str, str]
    expected_tag: str = ""


def declared_version(source: str) -> str:
    """Return the version that opsdk/base/version.py declares."""
    match = _VERSION.search(source)
    if match is None:
        raise ReleaseError('opsdk/base/version.py has no line VERSION = "...": restore it')
    return match[1]


def newest_version(changelog: str) -> str:
    """Return the version of the first heading with a date; empty if there is none."""
    match = _HEADING.search(changelog)
    return match[1] if match else ""


def refusals(clone: Clone) -> Iterator[str]:
    """Yield each reason why the clone cannot be released, with what to do."""
    if clone.changes:
        yield f"the tree has changes, first {clone.changes[0].strip()!r}: commit or remove them"
    newest = newest_version(clone.changelog)
    if newest != clone.version:
        yield (
            f"opsdk/base/version.py has {clone.version}, the newest version of CHANGELOG.md is {newest or 'missing'}: "
            "make them equal"
        )
    if clone.fragments:
        yield (
            f"docs/changes has {len(clone.fragments)} unreleased changes, first {clone.fragments[0]}: "
            "move them into a version with make changelog VERSION=X.Y.Z"
        )
    tag = f"v{clone.version}"
    if clone.tags.get(tag, clone.head) != clone.head:
        yield f"the tag {tag} is at another commit: check it out to repeat that release, or raise the version"
    if clone.expected_tag not in ("", tag):
        yield f"the release was started for the tag {clone.expected_tag}, the version wants {tag}: move the tag"


def runtime_extras(pyproject: str) -> list[str]:
    """Return the extras for programs that use opsdk, in the order of pyproject.toml."""
    extras = tomllib.loads(pyproject)["project"]["optional-dependencies"]
    return [name for name in extras if name not in DEVELOPMENT]


def program(page: str, title: str) -> str:
    """Return the Python block of a page that has a title."""
    match = re.search(rf'^```python title="{re.escape(title)}"\n(.*?)^```$', page, re.MULTILINE | re.DOTALL)
    if match is None:
        raise ReleaseError(f"README.md has no block with the title {title}: restore it")
    return match[1]


def differences(first: Mapping[str, bytes], second: Mapping[str, bytes]) -> list[str]:
    """Return how two builds differ: missing files, and the first byte that is not equal."""
    lines = [f"{name} is in one build only" for name in sorted(first.keys() ^ second.keys())]
    for name in sorted(first.keys() & second.keys()):
        one, other = first[name], second[name]
        if one != other:
            shorter = min(len(one), len(other))
            byte = next((index for index in range(shorter) if one[index] != other[index]), shorter)
            lines.append(f"{name} differs at byte {byte}")
    return lines


def named_sbom(sbom: str, version: str) -> str:
    """Return a CycloneDX document whose main component has the version."""
    document = json.loads(sbom)
    document["metadata"]["component"]["version"] = version
    return json.dumps(document, indent=2) + "\n"


def checksums(files: Mapping[str, bytes]) -> str:
    """Return the lines that ``sha256sum --check`` reads."""
    return "".join(f"{sha256(content).hexdigest()}  {name}\n" for name, content in sorted(files.items()))
