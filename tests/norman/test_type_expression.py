"""The grammar of field types."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.errors import UsageError
from opsdk.norman.type_expression import SIMPLE_TYPES, Container, TypeExpression

names = st.sampled_from(sorted(SIMPLE_TYPES)) | st.from_regex(
    r"(/v3/schemas/)?[a-zA-Z][a-zA-Z0-9]{0,8}", fullmatch=True
)
targets = names.filter(lambda name: name not in SIMPLE_TYPES)
leaves = names.map(lambda name: TypeExpression(name=name)) | targets.map(
    lambda name: TypeExpression(container=Container.REFERENCE, element=TypeExpression(name=name))
)
expressions = st.recursive(
    leaves,
    lambda inner: st.builds(
        lambda container, element: TypeExpression(container=container, element=element),
        st.sampled_from([Container.MAP, Container.ARRAY]),
        inner,
    ),
    max_leaves=5,
)


@given(expressions)
def test_an_expression_survives_its_text(expression: TypeExpression) -> None:
    """Parsing the text of an expression gives the expression."""
    assert TypeExpression.parse(str(expression)) == expression


@given(st.text(alphabet="map[]rayefnctst ", max_size=24))
def test_every_text_parses_to_itself_or_is_refused(text: str) -> None:
    """A string is exactly one field type, or a clear error."""
    try:
        expression = TypeExpression.parse(text)
    except UsageError:
        return
    assert str(expression) == text


@pytest.mark.parametrize(
    "text", ["", "map[", "map[]", "array[string", "list[string]", "reference[map[a]]", "reference[string]", "a]", " a"]
)
def test_a_text_that_is_no_type_is_refused(text: str) -> None:
    """The error for an invalid field type shows the valid forms."""
    with pytest.raises(UsageError, match=r"write string, int, map\[T\]|with the id of a schema"):
        TypeExpression.parse(text)


def test_the_target_is_the_schema_that_a_leaf_names() -> None:
    """References and nested schemas have a target; scalars have none."""
    assert TypeExpression.parse("map[array[reference[/v3/schemas/node]]]").leaf.target == "/v3/schemas/node"
    assert TypeExpression.parse("array[port]").leaf.target == "port"
    assert TypeExpression.parse("string").leaf.target == ""
    assert TypeExpression.parse("reference").is_reference
