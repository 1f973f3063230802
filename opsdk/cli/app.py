"""The commands of ``opsdk``, put together."""

from __future__ import annotations

import typer

from opsdk.cli import apiserver, run, why
from opsdk.cli.dev import command as dev
from opsdk.cli.doctor import command as doctor
from opsdk.cli.generate import command as generate
from opsdk.cli.package import command as package
from opsdk.cli.scaffold import commands as scaffold

app = typer.Typer(
    help="Tools for operators written with opsdk.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("init")(scaffold.init)
app.add_typer(scaffold.create_app, name="create")
app.add_typer(generate.app, name="generate")
app.command("run", epilog=run.EPILOG)(run.run)
app.command("dev", epilog=dev.EPILOG)(dev.dev)
app.command("doctor")(doctor.doctor)
app.command("cleanup")(doctor.cleanup)
app.command("package")(package.package)
generate.app.command("manifests")(package.manifests)
generate.app.command("all", help="Write all that is generated: the same as manifests.\n\nopsdk generate all")(
    package.manifests
)
generate.app.command("webhooks")(package.webhooks)
app.command("apiserver", epilog=apiserver.EPILOG)(apiserver.apiserver)
app.command("why", epilog=why.EPILOG)(why.why)
