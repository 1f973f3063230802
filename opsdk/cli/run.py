"""``opsdk run``: runs an operator."""

from __future__ import annotations

from typing import Annotated

import typer

from opsdk.cli.loading import OperatorArgument, load_operator


def run(
    operator: OperatorArgument = "",
    flags: Annotated[list[str] | None, typer.Argument(metavar="[-- FLAGS...]", help="flags of the operator")] = None,
) -> None:
    """Run an operator until SIGTERM.

    opsdk run

    opsdk run greeter.py

    opsdk run website.operator:make_operator -- --leader-elect --log-format json
    """
    words = flags or []
    if operator.startswith("-"):
        # `opsdk run -- --leader-elect` leaves out the operator.
        operator, words = "", [operator, *words]
    load_operator(operator).main(words)
