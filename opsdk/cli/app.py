"""The commands of ``opsdk``, put together."""

from __future__ import annotations

import typer

from opsdk.cli import why
from opsdk.cli.generate import command as generate

app = typer.Typer(
    help="Tools for operators written with opsdk.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(generate.app, name="generate")
app.command("why", epilog=why.EPILOG)(why.why)
