"""Laws of tokens and of what literals mean."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsdk.cel.lexer import TokenKind, tokenize, unquote, unquote_bytes


@given(st.text(max_size=60))
def test_every_character_is_in_a_token_or_an_issue_or_blank(text: str) -> None:
    """Tokens stand at their positions, and every other character is blank or in an issue."""
    tokens, _ = tokenize(text)
    assert tokens[-1].kind is TokenKind.END
    assert tokens[-1].at == len(text)
    assert all(text.startswith(token.text, token.at) for token in tokens[:-1])


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("1 0x1F 1u 0xfu 1.5 1e3 .5 2.5E-3", "INT INT UINT UINT FLOAT FLOAT FLOAT FLOAT"),
        ("'a' \"b\" r'\\d' '''x\ny''' b'z' bR\"q\"", "STRING STRING STRING STRING BYTES BYTES"),
        ("a _b true in x // rest", "IDENTIFIER IDENTIFIER SYMBOL SYMBOL IDENTIFIER"),
        ("a.`b-c`", "IDENTIFIER SYMBOL ESCAPED"),
        ("<= < == != && || ?: [0]", "SYMBOL SYMBOL SYMBOL SYMBOL SYMBOL SYMBOL SYMBOL SYMBOL SYMBOL INT SYMBOL"),
    ],
)
def test_each_token_form_has_its_kind(text: str, kinds: str) -> None:
    """The lexer gives each form of a token its kind."""
    tokens, issues = tokenize(text)
    assert not issues
    assert " ".join(token.kind.name for token in tokens[:-1]) == kinds


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a = b", "'= '"),
        ("a =\tb", "'=\t'"),
        ("a & b", "'& '"),
        ("'abc", "''abc'"),
        ("'a\nb'", "''a\n'"),
        ("a @ b", "'@'"),
        ("#", "'#'"),
        ("'\\q'", "''\\q'"),
        ('"\\u12"', "'\"\\u12\"'"),
        ("'\\400'", "''\\4'"),
        ("a.`b%`", "'`b%'"),
    ],
)
def test_invalid_tokens_are_printed_as_cel_go_does(text: str, shown: str) -> None:
    """An invalid token is printed as cel-go prints it."""
    _, issues = tokenize(text)
    assert issues[0].message == f"Syntax error: token recognition error at: {shown}"


@pytest.mark.parametrize(
    ("token", "meaning"),
    [
        (r"'\a\b\f\n\r\t\v\\\"\'\`\?'", "\a\b\f\n\r\t\v\\\"'`?"),
        (r"'\x41\u00e4\U0001F451\101'", "Aä👑A"),
        (r"r'\n'", "\\n"),
        (r"R'''a'b'''", "a'b"),
        ("'''a\nb'''", "a\nb"),
        ("''", ""),
    ],
)
def test_escapes_are_decoded_except_in_raw_strings(token: str, meaning: str) -> None:
    """Escape sequences are decoded as in Go; raw strings keep them."""
    tokens, issues = tokenize(token)
    assert not issues
    assert unquote(tokens[0].text) == meaning


def test_bytes_literals_hold_octets() -> None:
    """Numeric escapes are octets, everything else is UTF-8."""
    assert unquote_bytes(r"b'\377ä\x00'") == b"\xff\xc3\xa4\x00"
    assert unquote_bytes(r"br'\x'") == rb"\x"


def test_surrogates_are_no_characters() -> None:
    """A lone surrogate is a syntax error."""
    with pytest.raises(ValueError, match="uD800"):
        unquote(r"'\uD800'")
