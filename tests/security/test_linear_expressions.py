"""No regular expression that reads foreign data backtracks: each is pumped with strings derived from it."""

from __future__ import annotations

import pytest

from tests.security.regex_attacks import Expression, Findings, find_expressions, slow_attack

_OWN_DATA = {
    "opsdk.cli.generate": "reads the schemas that a developer generates classes from, on his own machine",
    "opsdk.cli.scaffold": "reads the arguments of the developer's own command",
    "opsdk.cli.package": "reads the arguments of the developer's own command",
    "envtest.data": "reads the tables of this distribution",
    "envtest.testing": "reads the names of the developer's own tests",
}
"""Modules whose expressions never see foreign data, with the reason."""
_SLOW = pytest.mark.slow


def _foreign(module: str) -> bool:
    return not module.startswith(tuple(_OWN_DATA))


@pytest.fixture(scope="module")
def findings() -> Findings:
    """The expressions of both packages."""
    return find_expressions("opsdk", "envtest")


@pytest.mark.slow
def test_every_pattern_is_known(findings: Findings) -> None:
    """A pattern is a constant, a parameter or a loop variable with constant values, so that it can be pumped."""
    unresolved = [(module, call) for module, call in findings.unresolved if _foreign(module)]

    assert not unresolved
    assert len(findings.expressions) > 150


@_SLOW
def test_expressions_take_linear_time(findings: Findings) -> None:
    """The CPU time of an expression grows with the length of the text, whatever the text."""
    expressions = [expression for expression in findings.expressions if _foreign(expression.module)]
    attacks: dict[Expression, str] = {}
    for expression in expressions:
        attacks[expression] = slow_attack(expression)
        print(f"{'SLOW  ' if attacks[expression] else 'linear'} {expression} {attacks[expression]}")

    assert not [f"{expression}: {attack}" for expression, attack in attacks.items() if attack]


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"(a+)+", "fullmatch"),
        (r"\s*x", "search"),
        (r"(aa|a)*c", "match"),
        (r"-BEGIN.*?-END", "finditer"),
    ],
)
def test_the_pump_finds_backtracking(pattern: str, method: str) -> None:
    """Nested, adjacent, alternative and restarted repetitions are found."""
    assert slow_attack(Expression("example", 1, pattern, 0, frozenset([method])))
