"""Field selectors from queries."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.apimachinery.selectors import FieldRequirement, FieldSelector
from opsdk.apiserver.endpoints.options import list_options
from opsdk.apiserver.endpoints.selectors import parse_fields, parse_labels
from opsdk.errors import BadRequestError
from opsdk.http.server.request import Query

KEYS = st.text("abc.", min_size=1, max_size=5)
TERMS = st.builds(FieldRequirement, KEYS, st.text(r"ab,=\!", max_size=5), st.booleans())


@given(st.lists(TERMS, max_size=4))
def test_what_is_written_is_read_again(terms: list[FieldRequirement]) -> None:
    """Any field selector survives escaping and parsing; terms keep their order."""
    written = sorted(terms, key=str)
    assert parse_fields(str(FieldSelector(tuple(terms)))) == FieldSelector(tuple(written))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a", "invalid selector: 'a'; can't understand 'a'"),
        ("b=1,a", "invalid selector: 'b=1,a'; can't understand 'a'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ("a===b", "invalid field selector: unescaped character in value: 61"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
        ("a=\\b", "invalid field selector: invalid escape sequence: \\b"),
    ],
)
def test_what_cannot_be_read_is_refused(text: str, why: str) -> None:
    """An invalid selector is an error with the term, character or escape sequence."""
    with pytest.raises(BadRequestError) as caught:
        parse_fields(text)
    assert caught.value.message == why


@pytest.mark.parametrize("text", ["", ",", "=", "!=", ",=,"])
def test_terms_that_say_nothing_are_none(text: str) -> None:
    """A term without field and value is ignored."""
    assert parse_fields(text) == FieldSelector(())


def test_a_watch_of_one_object_selects_it() -> None:
    """The name in the path is the selector; another selector must name it too."""
    one = FieldRequirement("metadata.name", "a")
    assert list_options(Query(), name="a").selection.fields == FieldSelector((one,))
    both = list_options(Query("fieldSelector=metadata.name=a,b=c"), name="a").selection.fields
    assert one in both.requirements
    for text in ("metadata.name=b", "b=c"):
        with pytest.raises(BadRequestError, match="doesn't match requested name"):
            list_options(Query(f"fieldSelector={text}"), name="a")


NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    " character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("/", f'<nil>: Invalid value: "/": prefix part must be non-empty; name part must be non-empty; {NAME}'),
        ("a>b", "values[0]: Invalid value: \"b\": for 'Gt', 'Lt' operators, the value must be an integer"),
        ("a=-", 'values[0][a]: Invalid value: "-": a valid label must be an empty string or consist of '),
        ("a in (-,_)", '[values[0][a]: Invalid value: "-": a valid label must be'),
    ],
)
def test_everything_that_is_wrong_with_a_label_is_reported(text: str, why: str) -> None:
    """All errors of one label requirement are in one message."""
    with pytest.raises(BadRequestError) as caught:
        parse_labels(text)
    assert str(caught.value).startswith(f"unable to parse requirement: {why}")
