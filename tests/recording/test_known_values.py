"""Copies of secret values are found wherever they are, and however many values there are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.recording.known_values import MIN_LENGTH, KnownValues, ValueLimitError, replaced, replaced_in_msgpack

VALUES = st.binary(min_size=MIN_LENGTH, max_size=40)


def known(values: list[bytes]) -> KnownValues:
    """Return known values, each with a text that has none of them."""
    result = KnownValues()
    for number, value in enumerate(values):
        result.add(value, b"<%d>" % number)
    return result


@pytest.mark.parametrize("others", [0, 200])
@given(values=st.lists(VALUES, min_size=1, max_size=8, unique=True), before=st.binary(max_size=9), after=st.binary())
def test_a_copy_is_found_at_every_place(others: int, values: list[bytes], before: bytes, after: bytes) -> None:
    """Few values are looked for one by one, and many in an index."""
    more = [b"other-value-%d-of-many" % number for number in range(others)]
    text = before + b"|".join(values) + after
    [present] = known(values + more).present_in([text])
    assert set(values) <= set(present)
    rest = replaced(text, present)
    assert not any(value in rest for value in values)


@given(st.lists(VALUES, max_size=5, unique=True), st.binary(max_size=300))
def test_only_values_of_the_text_are_found(values: list[bytes], text: bytes) -> None:
    """An index gives candidates, and some are false."""
    values += [b"value-%d-of-many" % number for number in range(100)]
    [present, nothing] = known(values).present_in([text, b""])
    assert all(value in text for value in present)
    assert not nothing


def test_a_value_that_begins_with_another_is_hidden_whole() -> None:
    """The rest of the longer one would say something about it."""
    values = known([b"correct-horse", b"correct-horse-battery"])
    text = b"correct-horse-battery correct-horse"
    assert [replaced(text, present) for present in values.present_in([text])] == [b"<1> <0>"]


def test_a_body_of_messagepack_stays_readable() -> None:
    """Its texts have their length before them. A body without values is returned as it is."""
    values = known([b"correct-horse"])
    body = b"\x81\xa3key\xadcorrect-horse"
    [present] = values.present_in([body])
    assert replaced_in_msgpack(body, present) == b"\x81\xa3key\xa3<0>"
    assert replaced_in_msgpack(b"", {b"correct-horse": b"<0>"}) == b""


def test_short_values_are_not_looked_for() -> None:
    """They occur by chance."""
    assert known([b"1234567"]).present_in([b"1234567"]) == [{}]


def test_there_is_a_limit_of_memory() -> None:
    """The message says what to do. A value that is known takes no more."""
    values = KnownValues(max_bytes=2_500)
    values.add(b"password-0", b"digest")
    values.add(b"password-1", b"digest")
    values.add(b"password-0", b"digest")
    with pytest.raises(ValueLimitError, match=r"let it read fewer Secrets, or .*RecordingOptions\(secrets=True\)"):
        values.add(b"password-2", b"digest")
    assert len(values) == 2
