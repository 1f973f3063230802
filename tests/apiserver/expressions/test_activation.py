"""Evaluations that share variables and a budget."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.aio import large_work
from opsdk.apiserver.auth.authorization import AuthorizerAttributes, Decision
from opsdk.apiserver.auth.user import User
from opsdk.apiserver.expressions.activation import (
    Activation,
    CompiledExpression,
    OutOfBudgetError,
    PolicyCompiler,
    judge,
)
from opsdk.apiserver.expressions.authorizer import AuthorizerValue
from opsdk.apiserver.expressions.authorizer_checks import AuthorizerChecks
from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.types import BOOL, INT, NULL, STRING, TIMESTAMP, Type, list_of


class Counting:
    """Allows ``get``, and counts the questions."""

    def __init__(self) -> None:
        self.asked: list[AuthorizerAttributes] = []

    async def authorize(self, attributes: AuthorizerAttributes) -> Decision:
        self.asked.append(attributes)
        return Decision(allowed=attributes.verb == "get")


def activation(compiler: PolicyCompiler, authorizer: Counting | None = None, **values: Any) -> Activation:
    """With a generous budget, unless `values` has another."""
    budget = values.pop("budget", 10_000_000)
    asking = AuthorizerChecks(authorizer or Counting())
    values["authorizer"] = AuthorizerValue.of(asking.ask, User(name="bob"))
    return Activation(asking, values, compiler.variables, budget=budget)


def composed(*variables: str, params: bool = False) -> PolicyCompiler:
    """With variables ``v0``, ``v1`` and so on."""
    compiler = PolicyCompiler(params=params, composed=True)
    for index, text in enumerate(variables):
        assert compiler.variable(f"v{index}", text).fault == "", text
    return compiler


# ------------------------------------------------------------------ compiling
@pytest.mark.parametrize(
    ("text", "wanted", "fault"),
    [
        ("true", (BOOL,), ""),
        ("object.x", (BOOL,), "must evaluate to bool but got dyn"),
        ("null", (BOOL,), "must evaluate to bool but got null_type"),
        ("timestamp('2020-01-01T00:00:00Z')", (BOOL,), "must evaluate to bool but got google.protobuf.Timestamp"),
        ("[1]", (STRING, NULL), "must evaluate to one of [string null_type] but got list(int)"),
        ("{'a': [1.0]}", (list_of(INT),), "must evaluate to list(int) but got map(string, list(double))"),
        ("authorizer", (BOOL,), "must evaluate to bool but got kubernetes.authorization.Authorizer"),
        ("duration('1s')", (TIMESTAMP,), "must evaluate to google.protobuf.Timestamp but got google.protobuf.Duration"),
    ],
)
def test_expressions_must_have_the_declared_type(text: str, wanted: tuple[Type, ...], fault: str) -> None:
    """An expression with another static type is an error with Go's names, even if its value could fit."""
    assert PolicyCompiler(params=False, composed=False).compile(text, wanted).fault == fault


@pytest.mark.parametrize(
    ("text", "options", "undeclared"),
    [
        ("params.x == 1", {}, "params"),
        ("variables.x == 1", {}, "variables"),
        ("authorizer.path('/x').check('get').allowed()", {"authorizer": False}, "authorizer"),
        ("Object{} == Object{}", {}, "Object"),
        ("jsonpatch.escapeKey('x') == 'x'", {}, "jsonpatch"),
    ],
)
def test_what_may_be_referred_to_depends_on_the_place(text: str, options: dict[str, bool], undeclared: str) -> None:
    """params, variables, authorizer and mutation types are declared only where they are available."""
    assert (
        f"undeclared reference to '{undeclared}'"
        in PolicyCompiler(params=False, composed=False).compile(text, (BOOL,), **options).fault
    )
    everything = PolicyCompiler(params=True, composed=True)
    everything.variable("x", "1")
    assert everything.compile(text, (BOOL,), patches=True).fault == ""


def test_variables_are_known_by_their_types_to_those_after_them() -> None:
    """A variable sees only earlier ones; scalars, lists and maps keep their types, others are dynamic."""
    compiler = composed("1", "[variables.v0]", "authorizer.group('')")
    assert "undefined field 'v9'" in compiler.compile("variables.v9", (INT,)).fault
    assert compiler.compile("variables.v1[0] + variables.v0", (INT,)).fault == ""
    assert "no matching overload" in compiler.compile("variables.v0 + 'x'", (INT,)).fault
    assert compiler.compile("variables.v2", (INT,)).fault == "must evaluate to int but got dyn"
    assert compiler.variable("broken", "1 +").fault.startswith("compilation failed: ")
    assert compiler.compile("variables.broken == 1", (BOOL,)).fault == ""


# ------------------------------------------------------------------ evaluating
async def test_a_variable_is_evaluated_once_and_only_where_it_is_needed() -> None:
    """A variable, and an authorizer check in it, is evaluated once, and only if it is used."""
    asks = "authorizer.group('').resource('pods').check('%s').allowed()"
    compiler = composed(asks % "get", asks % "list", "variables.v0 && variables.v0")
    authorizer = Counting()
    one = activation(compiler, authorizer)
    for _ in range(3):
        assert await one.evaluate(compiler.compile("variables.v2 && variables.v0", (BOOL,))) is True
    assert [attributes.verb for attributes in authorizer.asked] == ["get"]


async def test_the_cost_of_a_variable_counts_once() -> None:
    """The expression that uses a variable first pays its cost."""
    costly = "[1, 2, 3, 4, 5].map(a, [a].map(b, a + b).sum()).sum()"
    compiler = composed(costly)
    compiled = compiler.compile("variables.v0 > 0", (BOOL,))
    one = activation(compiler)
    spent = []
    for _ in range(3):
        before = one.budget
        await one.evaluate(compiled)
        spent.append(before - one.budget)
    assert spent[0] > spent[1] == spent[2] > 0
    with pytest.raises(OutOfBudgetError):
        await activation(compiler, budget=spent[0] - 1).evaluate(compiled)
    assert await activation(compiler, budget=spent[0]).evaluate(compiled) is True


async def test_a_variable_without_a_value_is_an_error_wherever_it_is_used() -> None:
    """An error of a variable names it, wherever it is used; logic can absorb the error."""
    compiler = composed("object.x.y", "int('a' + string(object.n))")
    compiler.variable("broken", "nope")
    one = activation(compiler, object={"n": 1})
    for name, reason in (
        ("v0", 'composited variable "v0" fails to evaluate: no such key: x'),
        ("v1", 'composited variable "v1" fails to evaluate: type conversion error'),
        ("broken", 'composited variable "broken" fails to compile: compilation failed'),
    ):
        for _ in range(2):
            with pytest.raises(
                CelEvaluationError, match=f"^expression 'variables.{name} == 1' resulted in error: "
            ) as e:
                await one.evaluate(compiler.compile(f"variables.{name} == 1", (BOOL,)))
            assert reason in str(e.value)
        assert await one.evaluate(compiler.compile(f"variables.{name} == 1 || true", (BOOL,))) is True


NUMBERS = st.integers(0, 3)
FORMULAS = st.lists(st.tuples(NUMBERS, st.lists(st.integers(0, 9), max_size=3)), min_size=1, max_size=6)


@given(FORMULAS)
def test_variables_are_what_they_would_be_if_all_were_evaluated_in_order(
    formulas: list[tuple[int, list[int]]],
) -> None:
    """Lazy variables have the values of a model that evaluates them all in order."""
    compiler, model = PolicyCompiler(params=False, composed=True), list[int]()
    for index, (number, terms) in enumerate(formulas):
        earlier = [term % index for term in terms] if index else []
        compiler.variable(f"v{index}", " + ".join([str(number), *(f"variables.v{term}" for term in earlier)]))
        model.append(number + sum(model[term] for term in earlier))
    backwards = [compiler.compile(f"variables.v{position}", (INT,)) for position in reversed(range(len(model)))]

    async def evaluate() -> list[Any]:
        one = activation(compiler)
        return [await one.evaluate(compiled) for compiled in backwards]

    assert asyncio.run(evaluate())[::-1] == model


async def test_conditions_that_cost_too_much_say_nothing_else() -> None:
    """Each result is true, false or an error; after the budget is spent, only the budget error remains."""
    compiler = PolicyCompiler(params=False, composed=False)
    conditions = [compiler.compile(text, (BOOL,)) for text in ("true", "object.x", "object.y == 1", "false")]
    assert await judge(activation(compiler, object={}), conditions) == [
        True,
        "compilation error: must evaluate to bool but got dyn",
        "expression 'object.y == 1' resulted in error: no such key: y",
        False,
    ]
    [message] = await judge(activation(compiler, object={}, budget=1), conditions)
    assert str(message).startswith("validation failed due to running out of cost budget")


async def test_a_variable_that_means_itself_does_not_hang() -> None:
    """A variable that refers to itself is an error."""
    compiler = composed("1")
    compiler.variable("v0", "variables.v0 + 1")
    with pytest.raises(CelEvaluationError):
        await activation(compiler).evaluate(compiler.compile("variables.v0 == 2", (BOOL,)))


def test_an_expression_that_compiles_has_no_fault() -> None:
    """An expression has either a program or an error message."""
    assert CompiledExpression("x", "why").fault == "why"


# ------------------------------------------------------------------ time
@pytest.mark.realtime
async def test_a_budget_of_time_has_the_words_of_the_budget_of_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """An expression below its limit of cost ends too, and the next one has a budget of its own."""
    monkeypatch.setattr(large_work, "EVALUATION_SECONDS", 0.02)
    compiler = composed()
    loops = compiler.compile("object.all(a, object.all(b, object.all(c, a + b != c + 'x')))", (BOOL,))
    running = activation(compiler, object=[str(number) for number in range(60)])
    with pytest.raises(CelEvaluationError, match="operation cancelled: actual cost limit exceeded"):
        await running.evaluate(loops)
    assert await running.evaluate(compiler.compile("object.size() == 60", (BOOL,))) is True
