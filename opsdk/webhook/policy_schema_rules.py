"""The rules of an admission policy from the rules that a class has for its schema. Pure.

They enforce the rules of a class whose CustomResourceDefinition another operator installs, or has installed without
them. ``self`` becomes the variable of a comprehension over one value, so the text of a rule stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from opsdk.apimachinery.crd_markers import RULES
from opsdk.apimachinery.kinds import KindLike, kind_of
from opsdk.errors import UsageError
from opsdk.webhook.policies import AdmissionRule
from opsdk.webhook.policy_types import schema_of_kind

__all__ = ["schema_rules"]

_OLD_SELF: Final = re.compile(r"\boldSelf\b")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def schema_rules(kind: KindLike[Any]) -> list[AdmissionRule]:
    """Return the rules of a class and of its fields as rules of a policy.

    Args:
        kind: a class with ``rules = (Rule(...),)``, or with fields that `validations` marks.

    Raises:
        UsageError: the kind has no class, or a rule with ``oldSelf`` belongs to the elements of a list or map.

    >>> from opsdk import GroupVersionKind, Model, Object
    >>> from opsdk.apimachinery.crd import Rule
    >>> class SiteSpec(Model):
    ...     size: int = 1
    ...     rules = (Rule("self.size != 7", message="7 is reserved"),)
    >>> class Site(Object[SiteSpec, None]):
    ...     gvk = GroupVersionKind("demo.opsdk.dev", "v1", "Site")
    >>> print(schema_rules(Site)[0].expression)
    (!has(object.spec) || [object.spec].all(self, self.size != 7))
    """
    kind = kind_of(kind)
    schema = schema_of_kind(kind)
    if schema is None:
        raise UsageError(f"{kind.name} has no class here, so it has no rules: pass a class")
    return list(_rules(schema, _Place(value="object", path=""), kind.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """A value of the object.

    Attributes:
        value: its expression.
        path: for messages.
        wrap: turns an expression about the value into one about the object.
        is_single: no list or map leads to it.
        depth: of the comprehensions around it.
        fields: the names of the fields that lead to it, as CEL writes them.
    """

    value: str
    path: str
    wrap: Callable[[str], str] = str
    is_single: bool = True
    depth: int = 0
    fields: tuple[str, ...] = ()

    def field(self, name: str) -> _Place:
        """Return the place of a field, which may be absent."""
        written = name if _IDENTIFIER.fullmatch(name) else f"`{name}`"
        value = f"{self.value}.{written}"
        return _Place(
            value=value,
            path=f"{self.path}.{name}" if self.path else name,
            wrap=lambda text: self.wrap(f"(!has({value}) || {text})"),
            is_single=self.is_single,
            depth=self.depth,
            fields=(*self.fields, written),
        )

    def unless_null(self) -> _Place:
        """Return the place of a value that may be null: rules hold for null."""
        return replace(self, wrap=lambda text: self.wrap(f"({self.value} == null || {text})"))

    def elements(self, *, of_map: bool) -> _Place:
        """Return the place of the elements of a list, or of the values of a map."""
        name = f"v{self.depth}"
        value = f"{self.value}[{name}]" if of_map else name
        return _Place(
            value=value,
            path=self.path,
            wrap=lambda text: self.wrap(f"{self.value}.all({name}, {text})"),
            is_single=False,
            depth=self.depth + 1,
        )


def _rules(schema: Mapping[str, Any], place: _Place, kind: str) -> Iterator[AdmissionRule]:
    place = place.unless_null() if schema.get("nullable") else place
    for rule in schema.get(RULES, ()):
        yield _rule(rule, place, kind)
    for name, below in (schema.get("properties") or {}).items():
        yield from _rules(below, place.field(name), kind)
    for keyword, of_map in (("items", False), ("additionalProperties", True)):
        if isinstance(below := schema.get(keyword), Mapping):
            yield from _rules(below, place.elements(of_map=of_map), kind)


def _rule(rule: Mapping[str, Any], place: _Place, kind: str) -> AdmissionRule:
    """Return a rule of a policy for a rule of a schema."""
    text = f"[{place.value}].all(self, {rule['rule']})"
    if _OLD_SELF.search(rule["rule"]):
        if not place.is_single or rule.get("optionalOldSelf"):
            what = "optional_old_self" if place.is_single else "the elements of a list or map"
            raise UsageError(
                f"{kind}: a policy cannot have the rule {rule['rule']!r} of {place.path or 'the object'}, which uses "
                f"oldSelf with {what}: write an AdmissionRule with oldObject"
            )
        text = _with_old(text, place)
    field_path = place.path + rule.get("fieldPath", "")
    message = rule.get("messageExpression") if place.is_single else None
    return AdmissionRule(
        place.wrap(text),
        message=rule.get("message") or ("" if message else f"failed rule: {rule['rule'].strip()}"),
        message_expression=f"[{place.value}].map(self, {message})[0]" if message else "",
        reason="Forbidden" if rule.get("reason") == "FieldValueForbidden" else None,
        field_path=field_path.removeprefix("."),
    )


def _with_old(text: str, place: _Place) -> str:
    """Return a rule for updates: it holds where the old object has no such value."""
    paths = [".".join(["oldObject", *place.fields[: count + 1]]) for count in range(len(place.fields))]
    absent = ["oldObject == null", *(f"!has({path})" for path in paths)]
    return f"({' || '.join(absent)} || [{paths[-1] if paths else 'oldObject'}].all(oldSelf, {text}))"
