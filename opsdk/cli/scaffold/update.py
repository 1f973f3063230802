"""``opsdk update``: brings the templates of this version of opsdk into a project, by a three-way merge of each file."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import typer

from opsdk.base.version import VERSION
from opsdk.cli.consent import DryRunOption, YesOption, ask, check_consent
from opsdk.cli.output import Output, OutputFormat, print_files, print_result
from opsdk.cli.project import current_project
from opsdk.cli.scaffold.formatting import formatted
from opsdk.cli.scaffold.record import NAME, ScaffoldFile, ScaffoldRecord, read_record
from opsdk.errors import UsageError

# More conflicts of one file than git counts in its exit status.
_MOST_CONFLICTS = 127


class UpdateAction(StrEnum):
    """What happens to a file of the project."""

    REPLACE = "replace"
    """The author had not changed it."""
    MERGE = "merge"
    """The changes of both are in other lines."""
    CONFLICT = "conflict"
    """Both changed the same lines: it has markers, as git writes them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FileUpdate:
    """The update of one file.

    Attributes:
        path: relative to the project's folder.
        action: what happens.
        text: the new text.
        origin: what the record has of the file afterwards.
    """

    path: str
    action: UpdateAction
    text: str
    origin: ScaffoldFile


def update(
    *,
    yes: YesOption = False,
    dry_run: DryRunOption = False,
    output: Output = OutputFormat.TEXT,
) -> None:
    """Bring the templates of this version of opsdk into the project, and keep your changes.

    A file that both changed in the same lines gets conflict markers, as in git, and the status is 1. Files that you
    deleted stay away.

    opsdk update --dry-run

    opsdk update --yes
    """
    check_consent(yes=yes, dry_run=dry_run, changed="files of the project")
    folder = current_project().folder
    record = read_record(folder)
    if record is None:
        raise UsageError(
            f"{folder / NAME} does not exist: opsdk init wrote it. Make a project of the same name in another folder, "
            f"copy its {NAME}, and run opsdk update again"
        )
    updates = list(file_updates(folder, record))
    actions = {folder / each.path: str(each.action) for each in updates}
    if not updates:
        print_result(output, [], [f"nothing to update: the project has the templates of opsdk {VERSION}"])
        return
    conflicts = [each.path for each in updates if each.action is UpdateAction.CONFLICT]
    if not (yes or dry_run):
        for each in updates:
            print(f"{each.action} {each.path}", file=sys.stderr)
        ask()
    if not dry_run:
        for each in updates:
            (folder / each.path).write_text(each.text, encoding="utf-8")
        record.with_files({each.path: each.origin for each in updates}).write(folder)
    print_files(output, actions)
    if conflicts and not dry_run:
        print(f"opsdk: edit the lines between <<<<<<< and >>>>>>> of {', '.join(conflicts)}", file=sys.stderr)
    raise typer.Exit(int(bool(conflicts)))


def file_updates(folder: Path, record: ScaffoldRecord) -> Iterator[FileUpdate]:
    """Yield the updates of the files whose templates changed. Writes nothing.

    Raises:
        UsageError: a file cannot be read, the record lacks a value of a newer template, or git is missing.
    """
    for path, origin in record.files.items():
        file = folder / path
        rendered = origin.rendered(path)
        if rendered is None or not file.is_file():
            continue
        new = formatted(folder, path, rendered)
        if new == origin.text:
            continue
        try:
            current = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{file} cannot be read: {error}") from error
        after = ScaffoldFile(template=origin.template, values=origin.values, text=new)
        if current == new:
            continue
        if current == origin.text:
            yield FileUpdate(path=path, action=UpdateAction.REPLACE, text=new, origin=after)
            continue
        text, conflicts = merged(current, origin.text, new)
        action = UpdateAction.CONFLICT if conflicts else UpdateAction.MERGE
        yield FileUpdate(path=path, action=action, text=text, origin=after)


def merged(current: str, base: str, new: str) -> tuple[str, bool]:
    r"""Return `current` with the changes from `base` to `new`, and whether it has conflict markers.

    >>> merged("a\nmine\nc\nd\n", "a\nb\nc\nd\n", "a\nb\nc\nnew\n")
    ('a\nmine\nc\nnew\n', False)

    Raises:
        UsageError: git is not installed, or cannot merge the texts.
    """
    git = shutil.which("git")
    if git is None:
        raise UsageError("opsdk update merges files with git: install git")
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("current", "base", "new")]
        for path, text in zip(paths, (current, base, new), strict=True):
            path.write_text(text, encoding="utf-8")
        labels = [word for name in ("yours", "before", f"opsdk {VERSION}") for word in ("-L", name)]
        done = subprocess.run([git, "merge-file", "-p", *labels, *paths], capture_output=True, check=False)  # noqa: S603
    if done.returncode > _MOST_CONFLICTS:
        raise UsageError(f"git cannot merge a file: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout.decode(), done.returncode > 0
