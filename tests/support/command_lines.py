"""Command lines in texts: which of their subcommands and options do not exist."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Sequence
from typing import Any, cast

import typer

from envtest.__main__ import parser as serve_parser
from opsdk.cli.app import app


def words_of(line: str) -> list[str]:
    """Return the words of a command line, up to a pipe, a redirection, a second command, or the operator's flags."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    return list(itertools.takewhile(lambda word: word != "--" and not set(word) <= set("|&;<>()"), lexer))


def unknown_words(words: Sequence[str]) -> list[str]:
    """Return the subcommands and options of a command line that do not exist."""
    if words[0] == "python":
        return serve_parser().parse_known_args([word for word in words[3:] if word != "--help"])[1]
    names, command = list(words[1:]), cast("Any", typer.main.get_command(app))
    while names and (children := getattr(command, "commands", None)) is not None:
        if (name := names.pop(0)) not in children:
            return [name]
        command = command.load(name)
    options = {option for each in command.params for option in (*each.opts, *each.secondary_opts)}
    return [word for word in names if word.startswith("--") and word.partition("=")[0] not in {*options, "--help"}]
