"""Commands that are imported when they run.

Most commands import the operator stack, which takes longer than printing help or completing a word.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from types import ModuleType
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from opsdk.base.extras import RequiredExtra
from opsdk.cli.exit_status import ExitStatus

# The base of all errors of a command line. It may be a class of click, or of typer's own copy of click.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
# What Rich takes for a style tag, such as the list of extras in ``opsdk[cli]``: rich.markup.RE_TAGS.
_MARKUP_TAG = re.compile(r"(?<!\\)(\\*)(\[[a-z#/@][^\[\]]*\])")


@dataclass(frozen=True, slots=True, kw_only=True)
class LazyCommand:
    """One command of a `LazyGroup`.

    Attributes:
        target: ``MODULE:FUNCTION``.
        summary: its line in the group's help, at most 60 characters: longer lines are truncated.
        help: the whole help; empty for the docstring.
        epilog: the last paragraph of the help.
    """

    target: str
    summary: str
    help: str = ""
    epilog: str = ""


class LazyGroup(TyperGroup):
    """A group with names and summaries of its commands. A command is imported when it is called or completed.

    Attributes:
        lazy_commands: by name.
        sections: the commands that the help describes, by title; empty for one list of all.
        more_sections: the others, which the help names.
    """

    lazy_commands: ClassVar[Mapping[str, LazyCommand]] = {}
    sections: ClassVar[Mapping[str, Sequence[str]]] = {}
    more_sections: ClassVar[Mapping[str, Sequence[str]]] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        summaries = {name: TyperCommand(name, help=lazy.summary) for name, lazy in self.lazy_commands.items()}
        self.commands = {**summaries, **self.commands}

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the command line up to the command."""
        with _usage_status():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Parse the rest, and run the command."""
        with _usage_status():
            return super().invoke(ctx)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return name, command and remaining words of a command line."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command if name is None else self.load(name), rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands of the help."""
        if not self.sections:
            super().format_commands(ctx, formatter)
            return
        self.write_sections(formatter, self.sections)
        others = ", ".join(chain.from_iterable(self.more_sections.values()))
        formatter.write_paragraph()
        formatter.write_text(f"More: {others}. opsdk more describes them.")

    def write_sections(self, formatter: Any, sections: Mapping[str, Sequence[str]]) -> None:
        """Write names and summaries of commands below their titles, in the same columns."""
        width = max(map(len, self.commands))
        for title, names in sections.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:{width}}", self.commands[name].get_short_help_str(80)) for name in names])

    def load(self, name: str) -> Any:
        """Import a command, and return it with its parameters."""
        lazy = self.lazy_commands.get(name)
        if lazy is None:
            return self.commands[name]
        module, _, attribute = lazy.target.partition(":")
        single = typer.Typer(add_completion=False, rich_markup_mode="rich")
        single.command(name, help=lazy.help or None, epilog=lazy.epilog or None)(
            getattr(_import(module, name), attribute)
        )
        return _without_markup(typer.main.get_command(single))


@contextmanager
def _usage_status() -> Iterator[None]:
    """Give the errors of a command line a status of their own: click's 2 has another meaning in some commands."""
    try:
        yield
    except _UsageError as error:
        error.exit_code = ExitStatus.USAGE  # type: ignore[attr-defined]
        raise


def _import(module: str, name: str) -> ModuleType:
    with RequiredExtra("cli", f"opsdk {name}"):
        return importlib.import_module(module)  # noqa: TID251 - a command loads only its own module


def literal(text: str) -> str:
    """Return `text` escaped, so that Rich shows its brackets as they are written."""
    return _MARKUP_TAG.sub(r"\1\1\\\2", text)


def _without_markup(command: Any) -> Any:
    """Escape the strings of a command's help."""
    for part in (command, *command.params):
        for attribute in ("help", "epilog"):
            if text := getattr(part, attribute, None):
                setattr(part, attribute, literal(text))
    return command
