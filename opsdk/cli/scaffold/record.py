"""What a project was made from: ``.opsdk.json`` beside pyproject.toml, which ``opsdk update`` compares with.

Each file has the template that it came from, the values of it, and its text as it was written. The author's changes
are the difference between that text and the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import Template

import msgspec

from opsdk.base.version import VERSION
from opsdk.cli.scaffold import templates
from opsdk.errors import UsageError

NAME = ".opsdk.json"


class ScaffoldFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a template.

    Attributes:
        template: the name in `opsdk.cli.scaffold.templates`.
        values: by placeholder.
        text: what was written.
    """

    template: str
    values: dict[str, str]
    text: str = ""

    def rendered(self, path: str) -> str | None:
        """Return what this version of opsdk writes for it; None if it has no such template.

        Raises `UsageError` if the template has a placeholder without a value: projects of older versions may lack it.
        """
        template = getattr(templates, self.template, None)
        if not isinstance(template, Template):
            return None
        if missing := sorted(set(template.get_identifiers()) - self.values.keys()):
            names = ", ".join(missing)
            raise UsageError(
                f"the template of {path} has values that {NAME} does not have: {names}. "
                f'Add them to "values" of "{path}" in {NAME}, and run opsdk update again'
            )
        return template.substitute(self.values)


class ScaffoldRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a project.

    Attributes:
        opsdk: the version that wrote them last.
        files: by path relative to the project's folder.
    """

    opsdk: str
    files: dict[str, ScaffoldFile]

    def with_files(self, files: Mapping[str, ScaffoldFile]) -> ScaffoldRecord:
        """Return the record of this version with more files, or with other texts of some."""
        return ScaffoldRecord(opsdk=VERSION, files=dict(sorted({**self.files, **files}.items())))

    def write(self, folder: Path) -> None:
        """Write the record of a project."""
        text = msgspec.json.format(msgspec.json.encode(self), indent=2)
        (folder / NAME).write_bytes(text + b"\n")


def read_record(folder: Path) -> ScaffoldRecord | None:
    """Return the record of a project; None without one. Raises `UsageError` if it is damaged."""
    path = folder / NAME
    try:
        return msgspec.json.decode(path.read_bytes(), type=ScaffoldRecord)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}: restore it from the project's history") from error
