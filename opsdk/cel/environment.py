"""`CelEnvironment` compiles expressions, and `Program` evaluates them.

Upstream: github.com/google/cel-go/cel/env.go, cel/program.go.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

import msgspec

from opsdk.aio.large_work import check_time
from opsdk.cel.checker import Checked, CheckerScope, check
from opsdk.cel.declarations import MOST, Library, Range, merged
from opsdk.cel.errors import CelCompileError, CelEvaluationError
from opsdk.cel.estimate import SizeHint, estimate_cost
from opsdk.cel.evaluate import Construct, Frame, compile_code
from opsdk.cel.literals import check_literals
from opsdk.cel.macros import STANDARD
from opsdk.cel.parser import MAX_DEPTH, parse
from opsdk.cel.source import NOWHERE, ExpressionSource, Issue
from opsdk.cel.syntax import Expr
from opsdk.cel.types import Type, Value


class EvaluationResult(msgspec.Struct, frozen=True):
    """The value or error of an evaluation, with its cost."""

    value: Value
    error: CelEvaluationError | None
    cost: int


class Program:
    """A compiled expression.

    >>> from opsdk.cel.declarations import Range
    >>> from opsdk.cel.library.standard import STANDARD_LIBRARY
    >>> from opsdk.cel.types import INT, list_of
    >>> program = CelEnvironment([STANDARD_LIBRARY], variables={"l": list_of(INT)}).compile("l.all(i, i > 0)")
    >>> program.run({"l": [1, 2]}, limit=1000)
    EvaluationResult(value=True, error=None, cost=12)
    >>> program.estimate(lambda path: Range(0, 100)).most
    502

    Attributes:
        type: the type of its value.
        variables: the names of the variables that it uses.
    """

    def __init__(self, tree: Expr, checked: Checked, construct: Construct | None) -> None:
        self._tree = tree
        self._checked = checked
        self._construct = construct
        self._code, self._slots = compile_code(tree, checked)
        self.type: Type = checked.types[tree.id]
        self.variables = frozenset(checked.variables.values())

    def evaluate(self, variables: Mapping[str, Value]) -> Value:
        """Evaluate the expression.

        Raises:
            CelEvaluationError: the evaluation failed.
        """
        outcome = self.run(variables)
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

    def run(self, variables: Mapping[str, Value], *, limit: int = MOST) -> EvaluationResult:
        """Evaluate the expression; stop if the cost exceeds `limit`."""
        check_time()
        frame = Frame(variables, self._slots, limit, self._construct)
        try:
            value = self._code(frame)
            frame.charge(0)
        except CelEvaluationError as error:
            return EvaluationResult(None, error, frame.cost)
        except RecursionError:
            return EvaluationResult(None, CelEvaluationError("evaluation is nested too deeply"), frame.cost)
        return EvaluationResult(value, None, frame.cost)

    def estimate(self, hint: SizeHint) -> Range:
        """Return the bounds of the cost; `hint` returns the sizes of variables."""
        try:
            return estimate_cost(self._tree, self._checked, hint)
        except RecursionError:
            return Range(0, MOST)


def _joined(first: Mapping[str, Type], rest: Mapping[str, Type]) -> Mapping[str, Type]:
    """Return two mappings, looked up in order. They are not copied, because a lookup may create types."""
    return ChainMap(cast("dict[str, Type]", first), cast("dict[str, Type]", rest))


class CelEnvironment:
    """The variables, types and functions of expressions.

    >>> from opsdk.cel.library.standard import STANDARD_LIBRARY
    >>> from opsdk.cel.types import INT
    >>> environment = CelEnvironment([STANDARD_LIBRARY], variables={"x": INT})
    >>> environment.compile("[1, 2, 3].exists(i, i == x)").evaluate({"x": 2})
    True
    >>> environment.compile("x + 'a'")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    opsdk.cel.errors.CelCompileError: ERROR: <input>:1:3: found no matching overload for '_+_' applied to ...

    Args:
        libraries: the functions.
        variables: the types of the variables.
        types: the types that expressions can construct or name; looked up by name, so they need not be finite.
        construct: constructs objects of those types.
    """

    def __init__(
        self,
        libraries: Iterable[Library],
        *,
        variables: Mapping[str, Type] | None = None,
        types: Mapping[str, Type] | None = None,
        construct: Construct | None = None,
    ) -> None:
        self._library = merged(libraries)
        self._macros = {**STANDARD, **self._library.macros}
        known_types = _joined({} if types is None else types, self._library.types)
        self._scope = CheckerScope(variables or {}, known_types, self._library.functions)
        self._construct = construct

    def extend(
        self,
        *,
        variables: Mapping[str, Type] | None = None,
        types: Mapping[str, Type] | None = None,
        construct: Construct | None = None,
        libraries: Sequence[Library] = (),
    ) -> CelEnvironment:
        """Return an environment with additional variables, types and functions."""
        other = object.__new__(CelEnvironment)
        other._library = merged([self._library, *libraries]) if libraries else self._library
        other._macros = {**self._macros, **other._library.macros}
        other._scope = CheckerScope(
            {**self._scope.variables, **(variables or {})},
            _joined({} if types is None else types, self._scope.types),
            other._library.functions,
        )
        other._construct = construct or self._construct
        return other

    def compile(self, text: str, accept: Callable[[Type], None] = lambda _: None) -> Program:
        """Compile an expression.

        `accept` gets its type before constant folding, and may raise to reject it.

        Raises:
            CelCompileError: a syntax or type error; the message has the position.
        """
        check_time()
        try:
            tree = parse(text, self._macros)
            checked, issues = check(tree, self._scope)
            issues = issues or list(check_literals(tree, checked))
            if issues:
                raise CelCompileError(ExpressionSource(text).report(issues))
            accept(checked.types[tree.id])
            return Program(tree, checked, self._construct)
        except RecursionError:
            issue = Issue(NOWHERE, f"expression recursion limit exceeded: {MAX_DEPTH}")
            raise CelCompileError(ExpressionSource(text).report([issue])) from None
