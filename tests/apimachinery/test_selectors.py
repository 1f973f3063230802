"""Selectors: parsed, printed and matched as upstream does."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.meta import LabelSelector, LabelSelectorRequirement
from opsdk.apimachinery.selectors import (
    EVERYTHING,
    FieldRequirement,
    FieldSelector,
    LabelRequirements,
    Requirement,
    SelectorOperator,
    as_selector,
)
from opsdk.errors import UsageError

keys = st.sampled_from(["a", "app", "in", "notin", "exists", "x.dev/tier", "A-b_c.d"])
values = st.sampled_from(["", "1", "22", "3", "web", "in", "A-b_c.d"])


@st.composite
def requirements(draw: st.DrawFn) -> Requirement:
    """Any requirement."""
    key, operator = draw(keys), draw(st.sampled_from(SelectorOperator))
    match operator:
        case SelectorOperator.EXISTS | SelectorOperator.DOES_NOT_EXIST:
            return Requirement(key, operator)
        case SelectorOperator.IN | SelectorOperator.NOT_IN:
            return Requirement(key, operator, tuple(sorted(draw(st.sets(values, min_size=1, max_size=3)))))
        case SelectorOperator.GREATER_THAN | SelectorOperator.LESS_THAN:
            return Requirement(key, operator, (str(draw(st.integers(-30, 30))),))
        case _:
            return Requirement(key, operator, (draw(values),))


selectors = st.lists(requirements(), max_size=4).map(lambda found: LabelRequirements(tuple(found)))
labels = st.dictionaries(keys, values | st.sampled_from(["-3", "05", "1.5"]), max_size=5)


def model(requirement: Requirement, found: Mapping[str, str]) -> bool:
    """What a requirement means, said another way."""
    there, value = requirement.key in found, found.get(requirement.key, "")
    number = int(value) if value.lstrip("-").isdigit() else None
    meaning = {
        SelectorOperator.EXISTS: there,
        SelectorOperator.DOES_NOT_EXIST: not there,
        SelectorOperator.IN: there and value in requirement.values,
        SelectorOperator.EQUALS: there and value in requirement.values,
        SelectorOperator.NOT_IN: not there or value not in requirement.values,
        SelectorOperator.NOT_EQUALS: not there or value not in requirement.values,
        SelectorOperator.GREATER_THAN: there and number is not None and number > int((*requirement.values, "0")[0] or 0)
        if requirement.operator is SelectorOperator.GREATER_THAN
        else False,
        SelectorOperator.LESS_THAN: there and number is not None and number < int((*requirement.values, "0")[0] or 0)
        if requirement.operator is SelectorOperator.LESS_THAN
        else False,
    }
    return meaning[requirement.operator]


@given(selectors)
def test_what_is_printed_reads_back(selector: LabelRequirements) -> None:
    """Every selector, however odd its keys and values."""
    assert LabelRequirements.parse(str(selector)) == selector


@given(selectors, labels)
def test_matching_is_that_of_the_model(selector: LabelRequirements, found: dict[str, str]) -> None:
    """All requirements hold; negative ones hold where the label is missing."""
    assert selector.matches(found) == all(model(r, found) for r in selector.requirements)


@pytest.mark.behaviour(13)
@given(selectors, selectors, labels)
def test_and_is_and(one: LabelRequirements, two: LabelRequirements, found: dict[str, str]) -> None:
    """Two selectors combined select what both select."""
    assert (one & two).matches(found) == (one.matches(found) and two.matches(found))


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("", ""),
        ("a", "a"),
        (" ! a ", "!a"),
        ("a=b , c==d", "a=b,c=d"),
        ("a!=b", "a!=b"),
        ("a in (c, b,b)", "a in (b,c)"),
        ("a notin(x)", "a notin (x)"),
        ("a in ()", "a in ()"),
        ("a in (,b)", "a in (,b)"),
        ("a=", "a="),
        ("a=,b", "a=,b"),
        ("a>5,a<-7", "a>5,a<-7"),
        ("in in (in)", "in in (in)"),
        ("x.dev/a=b", "x.dev/a=b"),
    ],
)
def test_the_text_form(text: str, printed: str) -> None:
    """Spaces do not matter; values of sets are sorted and unique."""
    assert str(LabelRequirements.parse(text)) == printed


@pytest.mark.parametrize(
    "text",
    ["a,", ",a", "a,,b", "=a", "a in", "a in (", "a in (b", "a in b", "!", "!a=b", "a b", "a>x", "a>", "a>1.5", "a=b=c",
     "a(b)", "-a", "a-", "a/b/c", "A.dev/a", "/a", "a/", f"{'a' * 64}", "a=b c", "a=-b", f"a={'b' * 64}", "a=b/c",
     "a in (b/c)", "é", "a=é", "a>٣"],
)  # fmt: skip
def test_what_is_no_selector(text: str) -> None:
    """An invalid selector raises a UsageError."""
    with pytest.raises(UsageError):
        LabelRequirements.parse(text)


def test_trailing_newlines_are_no_part_of_a_label() -> None:
    """A value that a file was read into is refused, as the server would."""
    for wrong in ({"a": "b\n"}, {"a\n": "b"}, {"x.dev\n/a": "b"}):
        with pytest.raises(UsageError, match="is not a label"):
            LabelRequirements.equal(wrong)


def test_label_selectors_convert_to_selectors() -> None:
    """A LabelSelector of None matches nothing and an empty one everything; invalid operators are errors."""
    assert not LabelRequirements.of(None).matches({})
    assert LabelRequirements.of(LabelSelector()).matches({"a": "b"})
    assert not as_selector(None).matches({})
    assert EVERYTHING.matches({})

    def one(operator: str, *values_: str) -> LabelSelector:
        return LabelSelector(
            match_expressions=[LabelSelectorRequirement(key="a", operator=operator, values=[*values_])]
        )

    both = LabelSelector(match_labels={"b": "c"}, match_expressions=one("In", "y", "x").match_expressions)
    assert str(LabelRequirements.of(both)) == "b=c,a in (x,y)"
    assert str(LabelRequirements.of(one("DoesNotExist"))) == "!a"
    for wrong in (one("Equals", "x"), one("In"), one("Exists", "x"), one("In", "b/c")):
        with pytest.raises(UsageError):
            LabelRequirements.of(wrong)


def test_nothing_combined_with_anything_is_nothing() -> None:
    """A selector for nothing stays one in any combination."""
    assert not (LabelRequirements.none() & LabelRequirements()).matches({})
    assert not (LabelRequirements.parse("a") & LabelRequirements.none()).matches({"a": ""})


field_values = st.text(alphabet="ab,=\\! .", max_size=6)
fields = st.lists(
    st.builds(FieldRequirement, st.sampled_from(["metadata.name", "spec.nodeName"]), field_values, st.booleans()),
    max_size=3,
).map(lambda found: FieldSelector(tuple(found)))


@given(fields)
def test_printed_fields_read_back(selector: FieldSelector) -> None:
    """A printed field selector parses back, whatever characters its values have."""
    assert FieldSelector.parse(str(selector)) == selector


@given(fields, field_values)
def test_fields_match(selector: FieldSelector, value: str) -> None:
    """Equal or not equal, all of them."""
    expected = all((r.value == value) != r.negated for r in selector.requirements)
    assert selector.matches(lambda _: value) is expected


def test_fields_taken_apart() -> None:
    """`exact` finds what a field must equal, `without` leaves it out; negations stay."""
    selector = FieldSelector.parse("metadata.name=a, metadata.namespace==b,metadata.namespace!=c")
    assert selector.exact("metadata.namespace") == "b"
    assert selector.exact("spec.x") is None
    assert str(selector.without("metadata.namespace")) == "metadata.name=a,metadata.namespace!=c"


@pytest.mark.parametrize("text", ["a", "a=b,c", "=b", "!=b", "a!b", "a=b\\"])
def test_what_is_no_field_selector(text: str) -> None:
    """A UsageError that shows the part."""
    with pytest.raises(UsageError, match="field selector"):
        FieldSelector.parse(text)
