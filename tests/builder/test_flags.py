"""Flags and environment variables of an operator program."""

from __future__ import annotations

from enum import Enum
from typing import Any

import pytest
from client_fakes import Site

from opsdk.builder.flags import FLAGS, flags_in, parse_flags
from opsdk.builder.operator import Operator
from opsdk.builder.options import OperatorOptions
from opsdk.errors import UsageError
from opsdk.event.request import Request


def value_of(options: Any, path: str) -> Any:
    """Return the option at a path."""
    for name in path.split("."):
        options = getattr(options, name)
    return options


@pytest.mark.parametrize("flag", [flag for flag in FLAGS if flag.option], ids=lambda flag: flag.name)
def test_flag_beats_environment_beats_code(flag: Any) -> None:
    """Each option can be set in each way, and the more specific one wins."""
    base = OperatorOptions()
    default = value_of(base, flag.option)
    if isinstance(default, bool):
        first, second = "true", "false"
    elif isinstance(default, int | float):
        first, second = str(default + 1), str(default + 2)
    elif isinstance(default, Enum):
        first, second = (member.value for member in list(type(default))[:2])
    elif flag.name == "components":
        first, second = default
    else:
        first, second = "one", "two"
    if flag.name in ("metrics-cert-file", "metrics-key-file", "metrics-authentication"):
        return  # only together with others
    options, _ = parse_flags("x", base, [], {flag.variable: first})
    assert value_of(options, flag.option) == flag.parse(first)
    options, _ = parse_flags("x", base, [f"--{flag.name}={second}"], {flag.variable: first})
    assert value_of(options, flag.option) == flag.parse(second)
    assert value_of(base, flag.option) == default


def test_what_run_takes_is_returned_apart() -> None:
    """Logging and kubeconfig are not options; levels are read in any case."""
    arguments = ["--kubeconfig", "k", "--log-level", "debug", "--log-levels", "opsdk.requests=debug", "--leader-elect"]
    options, run = parse_flags("x", OperatorOptions(), arguments, {"OPSDK_LOG_FORMAT": "json"})
    assert options.leader_election
    assert run == {
        "kubeconfig": "k",
        "log_level": "DEBUG",
        "log_format": "json",
        "log_levels": {"opsdk.requests": "DEBUG"},
        "print_crds": False,
    }


def test_wrong_values_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """A flag is refused by argparse, a variable with its name, an option by its own check; each ends the program."""
    with pytest.raises(UsageError, match=r"\$OPSDK_LEADER_ELECT is 'maybe': use true or false"):
        parse_flags("x", OperatorOptions(), [], {"OPSDK_LEADER_ELECT": "maybe"})
    with pytest.raises(SystemExit, match=r"^64$"):
        parse_flags("x", OperatorOptions(), ["--retry-period", "soon"], {})
    assert "--retry-period" in capsys.readouterr().err
    with pytest.raises(SystemExit, match=r"^64$"):
        Operator("x").main(["--max-concurrent-reconciles", "0"])
    assert "max_concurrent_reconciles is 0" in capsys.readouterr().err


def test_the_definitions_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """--print-crds writes the definition of each kind of the operator once, and starts nothing."""
    operator = Operator("x")

    @operator.reconciler(Site)
    async def first(request: Request) -> None: ...

    @operator.reconciler(Site, name="second")
    async def second(request: Request) -> None: ...

    operator.main(["--print-crds"])
    out = capsys.readouterr().out
    assert out.count("kind: CustomResourceDefinition") == 1


def test_the_journal_has_the_size_of_its_flag(capsys: pytest.CaptureFixture[str]) -> None:
    """The operator was declared before its flags were read."""
    operator = Operator("x")
    operator.main(["--journal-size", "7", "--print-crds"])
    assert operator.journal.size == 7
    assert not capsys.readouterr().err


def test_only_flags_of_the_environment_are_recorded() -> None:
    """Another variable may hold a secret, also one that begins as flags do. So may another argument: it is no flag."""
    environment = {"OPSDK_LEADER_ELECT": "true", "OPSDK_DATABASE_PASSWORD": "correct-horse", "HOME": "/root"}
    assert flags_in(environment) == {"OPSDK_LEADER_ELECT": "true"}
    with pytest.raises(SystemExit):
        parse_flags("site", OperatorOptions(), ["--database-password=correct-horse"], {})
