"""Evaluates the expressions of a policy with shared variables and one cost budget.

Upstream: k8s.io/apiserver/pkg/admission/plugin/cel/condition.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final

from opsdk.apiserver.expressions.admission import admission_environment, compile_typed, with_mutations
from opsdk.apiserver.expressions.authorizer_checks import AuthorizerChecks
from opsdk.apiserver.expressions.environment import PER_CALL_LIMIT
from opsdk.cel.environment import CelEnvironment, Program
from opsdk.cel.errors import CelEvaluationError
from opsdk.cel.types import DYN, Type, TypeKind, Value, list_of, map_of, object_of
from opsdk.cel.values import CelObject, Optional
from opsdk.structured_merge.value import JsonObject

OUT_OF_BUDGET: Final = "validation failed due to running out of cost budget, no further validation rules will be run"


class OutOfBudgetError(Exception):
    """The evaluations exceeded their cost budget."""

    def __init__(self) -> None:
        super().__init__(OUT_OF_BUDGET)


@dataclass(frozen=True, slots=True)
class CompiledExpression:
    """A compiled expression; `program` is the error message if it does not compile."""

    text: str
    program: Program | str

    @property
    def fault(self) -> str:
        """The compilation error; empty without one."""
        return self.program if isinstance(self.program, str) else ""


# ------------------------------------------------------------------ compiling
_DYNAMIC: Final[Mapping[str, Type]] = MappingProxyType({})


class PolicyCompiler:
    """Compiles the expressions of one policy; each variable is declared for all later ones.

    Args:
        params: whether the policy has a paramKind.
        composed: whether expressions can use ``variables``.
        schema_types: the types of ``object``, ``oldObject`` and ``params``; empty for DYN, as in a server. With them,
            variables keep the types of objects.
    """

    def __init__(self, *, params: bool, composed: bool, schema_types: Mapping[str, Type] = _DYNAMIC) -> None:
        self._params = params
        self._schema_types = schema_types
        self._types: dict[str, Type] = {}
        self._environments: dict[tuple[bool, bool], CelEnvironment] = {}
        self._composed = object_of("kubernetes.variables", self._types) if composed else None
        self.variables: dict[str, CompiledExpression] = {}

    def variable(self, name: str, text: str) -> CompiledExpression:
        """Compile the next variable and declare it."""
        program = self.compile(text, ())
        if isinstance(program.program, str):
            self._types[name] = DYN
        else:
            self._types[name] = program.program.type if self._schema_types else _declared(program.program.type)
        self.variables[name] = program
        return program

    def compile(
        self, text: str, return_types: tuple[Type, ...], *, authorizer: bool = True, patches: bool = False
    ) -> CompiledExpression:
        """Compile an expression that must return one of these types."""
        environment = self._environments.get((authorizer, patches))
        if environment is None:
            if not self._schema_types:
                environment = admission_environment(params=self._params, authorizer=authorizer, patches=patches)
            else:
                environment = admission_environment(params=self._params, authorizer=authorizer)
                environment = environment.extend(variables=self._schema_types)
                environment = with_mutations(environment, self._schema_types["object"]) if patches else environment
            if self._composed is not None:
                composed = {self._composed.name: self._composed}
                environment = environment.extend(variables={"variables": self._composed}, types=composed)
            self._environments[authorizer, patches] = environment
        return CompiledExpression(text, compile_typed(environment, text, return_types))


_PLAIN: Final = frozenset(
    {
        TypeKind.BOOL,
        TypeKind.BYTES,
        TypeKind.DOUBLE,
        TypeKind.DURATION,
        TypeKind.INT,
        TypeKind.NULL,
        TypeKind.STRING,
        TypeKind.TIMESTAMP,
        TypeKind.UINT,
    }
)


def _declared(type_: Type) -> Type:
    """Return the declared type of a variable: scalars, and lists and maps of them; dyn for other types."""
    if type_.kind in _PLAIN:
        return type_
    if type_.kind is TypeKind.LIST and type_.params:
        return list_of(_declared(type_.params[0]))
    if type_.kind is TypeKind.MAP and type_.params:
        return map_of(*map(_declared, type_.params))
    return DYN


# ------------------------------------------------------------------ evaluating
class _Variables(CelObject):
    """``variables``: each is evaluated on first access, and only once."""

    __slots__ = ("_known", "_owner", "_variables")

    def __init__(self, owner: Activation, variables: Mapping[str, CompiledExpression]) -> None:
        self._owner = owner
        self._variables = variables
        self._known: JsonObject = {}

    @property
    def cel_type(self) -> Type:
        return object_of("kubernetes.variables", {})

    def find(self, field: str) -> Optional:
        """See `CelObject`; an evaluation error is cached too."""
        compiled = self._variables.get(field)
        if compiled is None:
            return Optional.none()
        if field not in self._known:
            self._known[field] = self._owner.compose(field, compiled)
        value = self._known[field]
        if isinstance(value, CelEvaluationError):
            raise CelEvaluationError(str(value))
        return Optional.of(value)

    def size(self) -> int:
        return len(self._variables)

    def equals(self, other: Value) -> bool:
        return self is other


class Activation:
    """The variable values and the cost budget of several evaluations.

    Args:
        asking: runs the authorizer checks.
        values: the values of variables, without ``variables``.
        variables: the policy's variables, in order.
        budget: the cost limit of all evaluations together.
    """

    def __init__(
        self,
        asking: AuthorizerChecks,
        values: Mapping[str, Value],
        variables: Mapping[str, CompiledExpression] | None = None,
        *,
        budget: int,
    ) -> None:
        self._asking = asking
        self._values = {**values, "variables": _Variables(self, variables or {})}
        self._composed = 0
        self.budget = budget

    def compose(self, name: str, compiled: CompiledExpression) -> Value:
        """Return a variable's value or error; its cost counts for the expression that reads it."""
        if isinstance(compiled.program, str):
            return CelEvaluationError(f'composited variable "{name}" fails to compile: {compiled.program}')
        try:
            outcome = compiled.program.run(self._values, limit=PER_CALL_LIMIT)
        except RecursionError:
            return CelEvaluationError(f'composited variable "{name}" fails to evaluate: nested too deeply')
        self._composed += outcome.cost
        if outcome.error is not None:
            return CelEvaluationError(f'composited variable "{name}" fails to evaluate: {outcome.error}')
        return outcome.value

    async def evaluate(self, compiled: CompiledExpression) -> Value:
        """Evaluate an expression.

        Raises:
            CelEvaluationError: the evaluation failed; the message names the expression.
            OutOfBudgetError: the budget is exceeded.
        """
        program = compiled.program
        if isinstance(program, str):
            raise CelEvaluationError(f"compilation error: {program}")
        outcome = await self._asking.run(partial(program.run, self._values, limit=PER_CALL_LIMIT))
        cost, self._composed = self._composed + outcome.cost, 0
        if cost > self.budget:
            raise OutOfBudgetError
        self.budget -= cost
        if outcome.error is not None:
            raise CelEvaluationError(f"expression '{compiled.text}' resulted in error: {outcome.error}")
        return outcome.value


async def judge(activation: Activation, conditions: list[CompiledExpression]) -> list[bool | str]:
    """Evaluate match conditions: true, false or an error each; one error if the budget is exceeded."""
    results: list[bool | str] = []
    for condition in conditions:
        try:
            results.append(await activation.evaluate(condition) is True)
        except CelEvaluationError as error:
            results.append(str(error))
        except OutOfBudgetError as error:
            return [str(error)]
    return results
