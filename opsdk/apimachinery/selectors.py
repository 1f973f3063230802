"""Label and field selectors: parse, print, match. Pure.

Upstream: k8s.io/apimachinery/pkg/labels/selector.go, pkg/fields/selector.go (v1.36)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Self

import msgspec
from msgspec.structs import replace

from opsdk.apimachinery.meta import LabelSelector
from opsdk.base.limits import LIMITS
from opsdk.errors import UsageError

_LABEL_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_LABEL_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_TOKEN = re.compile(r"!=|==|[=!,()<>]|[^\s,=!()<>]++")


class SelectorOperator(Enum):
    """Operator of a requirement."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    EQUALS = "="
    NOT_EQUALS = "!="
    GREATER_THAN = ">"
    LESS_THAN = "<"


_FROM_OBJECT = {
    "In": SelectorOperator.IN,
    "NotIn": SelectorOperator.NOT_IN,
    "Exists": SelectorOperator.EXISTS,
    "DoesNotExist": SelectorOperator.DOES_NOT_EXIST,
}


def _check_label(key: str, values: tuple[str, ...]) -> None:
    prefix, slash, name = key.rpartition("/")
    if not _LABEL_NAME.fullmatch(name) or (slash and (len(prefix) > 253 or not _LABEL_PREFIX.fullmatch(prefix))):
        raise UsageError(f"{key!r} is not a label key: letters, digits, '-', '_' and '.', at most 63, after 'prefix/'")
    for value in values:
        if value and not _LABEL_NAME.fullmatch(value):
            raise UsageError(f"{value!r} is not a label value: letters, digits, '-', '_' and '.', at most 63")


class Requirement(msgspec.Struct, frozen=True):
    """One requirement on a label. `values` is sorted for IN and NOT_IN."""

    key: str
    operator: SelectorOperator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether `labels` meet the requirement. Negative operators match if the key is missing."""
        value = labels.get(self.key)
        match self.operator:
            case SelectorOperator.EXISTS:
                return value is not None
            case SelectorOperator.DOES_NOT_EXIST:
                return value is None
            case SelectorOperator.IN | SelectorOperator.EQUALS:
                return value is not None and value in self.values
            case SelectorOperator.NOT_IN | SelectorOperator.NOT_EQUALS:
                return value is None or value not in self.values
            case _:
                if value is None or not re.fullmatch(r"-?[0-9]{1,19}", value):
                    return False
                number, bound = int(value), int(self.values[0])
                return number > bound if self.operator is SelectorOperator.GREATER_THAN else number < bound

    def __str__(self) -> str:
        match self.operator:
            case SelectorOperator.EXISTS:
                return self.key
            case SelectorOperator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case SelectorOperator.IN | SelectorOperator.NOT_IN:
                return f"{self.key} {self.operator.value} ({','.join(self.values)})"
            case _:
                return f"{self.key}{self.operator.value}{self.values[0]}"


class LabelRequirements(msgspec.Struct, frozen=True):
    """A label selector: all requirements must match. An empty selector matches every object.

    >>> s = LabelRequirements.parse("app=web,tier notin (cache, db),!legacy")
    >>> s.matches({"app": "web", "tier": "front"})
    True
    >>> str(s)
    'app=web,tier notin (cache,db),!legacy'
    """

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False
    """True for a selector that matches no object."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text form. Raises `UsageError` with the position of the error."""
        tokens = _Tokens(text)
        requirements: list[Requirement] = []
        while tokens.peek():
            requirement = _parse_requirement(tokens)
            numeric = requirement.operator in (SelectorOperator.GREATER_THAN, SelectorOperator.LESS_THAN)
            _check_label(requirement.key, () if numeric else requirement.values)
            requirements.append(requirement)
            if not tokens.peek():
                break
            tokens.expect(lambda t: t == ",", "','")
            if not tokens.peek():
                raise UsageError(f"label selector {text!r}: ends with ','")
        return cls(tuple(requirements))

    @classmethod
    def equal(cls, labels: Mapping[str, str]) -> Self:
        """Return a selector for objects that carry all these labels."""
        for key, value in labels.items():
            _check_label(key, (value,))
        return cls(tuple(Requirement(k, SelectorOperator.EQUALS, (v,)) for k, v in sorted(labels.items())))

    @classmethod
    def none(cls) -> Self:
        """Return a selector that matches no object."""
        return cls((), nothing=True)

    @classmethod
    def of(cls, selector: LabelSelector | None) -> Self:
        """Convert the form that objects contain.

        None matches no object; an empty selector matches every object (``metav1.LabelSelectorAsSelector``).
        """
        if selector is None:
            return cls.none()
        requirements = list(cls.equal(selector.match_labels).requirements)
        for part in selector.match_expressions:
            operator = _FROM_OBJECT.get(part.operator)
            if operator is None:
                raise UsageError(f"{part.operator!r} is not an operator: use In, NotIn, Exists or DoesNotExist")
            if (operator in (SelectorOperator.IN, SelectorOperator.NOT_IN)) != bool(part.values):
                raise UsageError(f"{part.key}: In and NotIn need values, Exists and DoesNotExist must not have values")
            _check_label(part.key, tuple(part.values))
            requirements.append(Requirement(part.key, operator, tuple(sorted(part.values))))
        return cls(tuple(requirements))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the selector matches these labels."""
        if not self.requirements:
            return not self.nothing
        return not self.nothing and all(r.matches(labels) for r in self.requirements)

    def __and__(self, other: LabelRequirements) -> LabelRequirements:
        return LabelRequirements(self.requirements + other.requirements, nothing=self.nothing or other.nothing)

    def __str__(self) -> str:
        return ",".join(str(r) for r in self.requirements)


EVERYTHING = LabelRequirements()
"""Selects every object."""


def as_selector(selector: str | Mapping[str, str] | LabelSelector | LabelRequirements | None) -> LabelRequirements:
    """Return the requirements for any form that callers may pass.

    None matches no object, like a nil selector in Kubernetes: a selector that happens to be unset must not select, or
    delete, everything. Leave the argument out, or pass `EVERYTHING`, to select every object.
    """
    match selector:
        case None:
            return LabelRequirements.none()
        case LabelRequirements():
            return selector
        case str():
            return LabelRequirements.parse(selector)
        case LabelSelector():
            return LabelRequirements.of(selector)
        case _:
            return LabelRequirements.equal(selector)


# ------------------------------------------------------------------ parsing labels
def label_tokens(text: str) -> list[str]:
    """Return the tokens of a label selector, in linear time. White space only separates them.

    Raises:
        UsageError: the selector has more than `Limits.selector_terms` requirements and values.
    """
    check_terms(text)
    return _TOKEN.findall(text)


def check_terms(text: str) -> None:
    """Check the number of requirements and values of a selector. Raises `UsageError`."""
    terms = text.count(",") + 1
    if terms > LIMITS.selector_terms:
        raise UsageError(f"the selector has {terms} terms: at most {LIMITS.selector_terms} are allowed")


class _Tokens:
    """The tokens of a label selector, with one token of look-ahead."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = label_tokens(text)
        self._position = 0

    def peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self._position += 1
        return token

    def expect(self, accepts: Callable[[str], bool], what: str) -> str:
        token = self.take()
        if not accepts(token):
            raise UsageError(f"label selector {self.text!r}: found {token or 'the end'!r}, expected {what}")
        return token


_MARKS = {"!=", "==", "=", "!", ",", "(", ")", ">", "<", ""}


def _is_word(token: str) -> bool:
    return token not in _MARKS


def _parse_requirement(tokens: _Tokens) -> Requirement:
    """Parse one requirement of a label selector. Raises `UsageError`."""
    if tokens.peek() == "!":
        tokens.take()
        return Requirement(tokens.expect(_is_word, "a label key"), SelectorOperator.DOES_NOT_EXIST)
    key = tokens.expect(_is_word, "a label key")
    match tokens.peek():
        case "" | ",":
            return Requirement(key, SelectorOperator.EXISTS)
        case "=" | "==" | "!=" as mark:
            tokens.take()
            value = tokens.take() if _is_word(tokens.peek()) else ""
            return Requirement(key, SelectorOperator.NOT_EQUALS if mark == "!=" else SelectorOperator.EQUALS, (value,))
        case ">" | "<" as mark:
            tokens.take()
            bound = tokens.expect(lambda t: re.fullmatch(r"-?[0-9]{1,19}", t) is not None, "a number")
            return Requirement(key, SelectorOperator(mark), (bound,))
        case "in" | "notin" as word:
            tokens.take()
            return Requirement(key, SelectorOperator(word), _parse_values(tokens))
        case other:
            raise UsageError(
                f"label selector {tokens.text!r}: found {other!r} after {key!r}, expected an operator or ','"
            )


def _parse_values(tokens: _Tokens) -> tuple[str, ...]:
    tokens.expect(lambda t: t == "(", "'('")
    values: set[str] = set()
    while True:
        values.add(tokens.take() if _is_word(tokens.peek()) else "")
        if tokens.expect(lambda t: t in (",", ")"), "',' or ')'") == ")":
            return tuple(sorted(values))


# ------------------------------------------------------------------ fields
class FieldRequirement(msgspec.Struct, frozen=True):
    """One requirement on a field: equal or, if `negated`, not equal."""

    field: str
    value: str
    negated: bool = False

    def __str__(self) -> str:
        escaped = re.sub(r"([\\,=])", r"\\\1", self.value)
        return f"{self.field}{'!=' if self.negated else '='}{escaped}"


class FieldSelector(msgspec.Struct, frozen=True):
    """A field selector: all requirements must match. The server or the index decides which fields are supported.

    >>> str(FieldSelector.parse("metadata.name=a,status.phase!=Running"))
    'metadata.name=a,status.phase!=Running'
    """

    requirements: tuple[FieldRequirement, ...] = ()
    nothing: bool = False
    """True for a selector that matches no object."""

    @classmethod
    def parse(cls, text: str) -> Self:
        r"""Parse the text form. ``\`` escapes ``,``, ``=`` and itself in values. Raises `UsageError`."""
        requirements = []
        check_terms(text)
        line = text.removesuffix("\n")
        if (len(line) - len(line.rstrip("\\"))) % 2:
            raise UsageError(f"field selector {text!r}: ends with a lone backslash")
        for part in re.findall(r"(?:[^,\\]++|\\.)++", text):
            match = re.fullmatch(r"\s*+([^=!]++)(!=|==|=)((?:\\.|[^\\])*+)", part)
            if match is None:
                raise UsageError(f"field selector {text!r}: {part!r} is not field=value or field!=value")
            field, mark, value = match.groups()
            requirements.append(FieldRequirement(field, re.sub(r"\\(.)", r"\1", value), mark == "!="))
        return cls(tuple(requirements))

    @classmethod
    def equal(cls, fields: Mapping[str, str]) -> Self:
        """Return a selector for objects whose fields have these values."""
        return cls(tuple(FieldRequirement(k, v) for k, v in sorted(fields.items())))

    def matches(self, value_of: Callable[[str], str]) -> bool:
        """Whether the selector matches. `value_of` returns the value of a field, empty if the object has none."""
        return not self.nothing and all((value_of(r.field) == r.value) != r.negated for r in self.requirements)

    def exact(self, field: str) -> str | None:
        """Return the value that `field` must equal, or None if the selector does not require one."""
        return next((r.value for r in self.requirements if r.field == field and not r.negated), None)

    def without(self, field: str) -> FieldSelector:
        """Return the selector without exact requirements on `field`."""
        return replace(self, requirements=tuple(r for r in self.requirements if r.field != field or r.negated))

    def __str__(self) -> str:
        return ",".join(str(r) for r in self.requirements)


ANY_FIELDS = FieldSelector()
"""Selects every object."""


def as_field_selector(selector: str | Mapping[str, str] | FieldSelector | None) -> FieldSelector:
    """Return a FieldSelector for any form that callers may pass. None matches no object, as in `as_selector`."""
    match selector:
        case None:
            return FieldSelector(nothing=True)
        case FieldSelector():
            return selector
        case str():
            return FieldSelector.parse(selector)
        case _:
            return FieldSelector.equal(selector)
