"""The parser of CEL: recursive descent to a syntax tree.

Upstream: github.com/google/cel-go/parser/parser.go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Final

from opsdk.cel.errors import CelCompileError
from opsdk.cel.lexer import Token, TokenKind, tokenize, unquote, unquote_bytes
from opsdk.cel.macros import STANDARD, Builder, Key, MacroError, Macros
from opsdk.cel.source import NOWHERE, ExpressionSource, Issue
from opsdk.cel.syntax import CallNode, Expr, Ident, ListOf, Literal, MapEntryNode, MapOf, Select, StructNode
from opsdk.cel.types import BOOL, BYTES, DOUBLE, INT, NULL, STRING, UINT
from opsdk.cel.values import UInt

MAX_DEPTH: Final = 250
"""Deepest nesting of an expression, as in cel-go."""

MAX_SIZE: Final = 100_000
"""Most code points of an expression."""

_WORDS: Final = (
    "as break const continue else false for function if import in let loop package namespace null return true var void"
    " while"
)
RESERVED: Final = frozenset(_WORDS.split())
"""Reserved words, which cannot be variable names."""

_EXPECTED: Final = (
    "[ ] { } ( ) . , - ! ? true false null NUM_FLOAT NUM_INT NUM_UINT STRING BYTES IDENTIFIER"  # in message order
)
_NOT_OPERANDS: Final = frozenset("])},?")
_STARTS: Final = frozenset({"[", "{", "(", ".", "-", "!", "true", "false", "null"})
_FIELDS: Final = (TokenKind.IDENTIFIER, TokenKind.ESCAPED)
_LEVELS: Final = (
    ("<", "<=", ">=", ">", "==", "!=", "in"),
    ("+", "-"),
    ("*", "/", "%"),
)
_LITERALS: Final = frozenset({"true", "false", "null"})
_OPERATORS: Final = {"in": "@in"}


def parse(text: str, macros: Macros = STANDARD) -> Expr:
    """Parse an expression and expand its macros.

    Raises:
        CelCompileError: a syntax error.
    """
    source = ExpressionSource(text)
    if len(text) > MAX_SIZE:
        message = f"expression code point size exceeds limit: size: {len(text)}, limit {MAX_SIZE}"
        raise CelCompileError(source.report([Issue(NOWHERE, message)]))
    tokens, issues = tokenize(text)
    parser = _Parser(text, tokens, macros, issues)
    tree: Expr | None = None
    try:
        tree = parser.start()
    except _StoppedError:
        pass  # the issue is recorded
    except RecursionError:
        issues.append(_too_deep())
    if issues or tree is None:
        raise CelCompileError(source.report(issues))
    return tree


def _too_deep() -> Issue:
    return Issue(NOWHERE, f"expression recursion limit exceeded: {MAX_DEPTH}")


_CONTINUES: Final = ("&&", "||", "?", "<", "<=", ">=", ">", "==", "!=", "in", "+", "-", "*", "/", "%", ".", "[")
"""Tokens that may follow any operand."""


class _StoppedError(Exception):
    """The parser cannot continue; the issue is recorded."""


class _Parser:
    def __init__(self, text: str, tokens: Sequence[Token], macros: Macros, issues: list[Issue]) -> None:
        self._text = text
        self._tokens = tokens
        self._next = 0
        self._macros = macros
        self._issues = issues
        self._ids = count(1)
        self._depth = 0
        self._instead = ""
        self._closers: list[tuple[str, ...]] = [()]

    # -------------------------------------------------------------- tokens
    @property
    def _token(self) -> Token:
        return self._tokens[self._next]

    def _peek(self) -> Token:
        return self._tokens[min(self._next + 1, len(self._tokens) - 1)]

    def _advance(self) -> Token:
        token = self._token
        self._next = min(self._next + 1, len(self._tokens) - 1)
        self._instead = ""
        return token

    def _accept(self, *symbols: str) -> Token | None:
        return self._advance() if self._token.is_(*symbols) else None

    def _expect(self, symbol: str) -> Token:
        token = self._accept(symbol)
        if token is not None:
            return token
        if self._peek().is_(symbol):
            self._syntax(f"extraneous input {_shown(self._token)} expecting '{symbol}'")
            self._advance()
            return self._advance()
        if self._follows(symbol):
            self._syntax(f"missing '{symbol}' at {_shown(self._token)}")
            return self._token
        self._syntax(f"mismatched input {_shown(self._token)} expecting '{symbol}'")
        raise _StoppedError

    def _follows(self, symbol: str) -> bool:
        """Report whether the current token may follow `symbol`, so that only `symbol` is missing."""
        if symbol == ":":
            return _starts(self._token)
        if not self._closers[-1]:
            return self._token.kind is TokenKind.END or self._token.is_(*_CONTINUES)
        return self._token.is_(*self._closers[-1], *_CONTINUES)

    def _comma_follows(self, closer: str) -> bool:
        """Report whether a comma follows an element; otherwise `closer` follows."""
        if not self._token.is_(closer, ","):
            following = self._peek().is_(closer, ",")
            kind = "extraneous" if following else "mismatched"
            self._syntax(f"{kind} input {_shown(self._token)} expecting {{'{closer}', ','}}")
            if not following:
                raise _StoppedError
            self._advance()
        return self._accept(",") is not None

    def _syntax(self, message: str) -> None:
        self._issue(self._token.at, f"Syntax error: {message}")

    def _issue(self, at: int, message: str) -> None:
        self._issues.append(Issue(at, message))

    def _check_length(self, length: int) -> None:
        """Limit a chain of operators or fields, which is as deep in the tree as it is long."""
        if self._depth + length > MAX_DEPTH + 1:
            self._issues.append(Issue(NOWHERE, "max recursion depth exceeded"))
            raise _StoppedError

    # -------------------------------------------------------------- operators
    def start(self) -> Expr:
        """Parse the whole text."""
        tree = self._expr()
        if self._token.kind is not TokenKind.END:
            kind = "extraneous" if self._peek().kind is TokenKind.END else "mismatched"
            self._syntax(f"{kind} input {_shown(self._token)} expecting <EOF>")
        return tree

    def _within(self, *closers: str) -> Expr:
        """Parse an expression that ends with one of `closers`."""
        self._closers.append(closers)
        expr = self._expr()
        self._closers.pop()
        return expr

    def _expr(self) -> Expr:
        """Parse an expression with the conditional operator."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._issues.append(_too_deep())
            raise _StoppedError
        condition = self._balanced("||", lambda: self._balanced("&&", lambda: self._binary(0)))
        mark = self._accept("?")
        if mark is not None:
            self._closers.append((":",))
            yes = self._balanced("||", lambda: self._balanced("&&", lambda: self._binary(0)))
            self._closers.pop()
            self._expect(":")
            condition = self._call(mark.at, "_?_:_", condition, yes, self._expr())
        self._depth -= 1
        return condition

    def _balanced(self, operator: str, term: Callable[[], Expr]) -> Expr:
        """Parse terms with one operator, and join them to a balanced tree."""
        terms, marks = [term()], []
        while mark := self._accept(operator):
            marks.append(mark.at)
            terms.append(term())

        def join(low: int, high: int) -> Expr:
            if low > high:
                return terms[low]
            middle = (low + high + 1) // 2
            return self._call(marks[middle], f"_{operator}_", join(low, middle - 1), join(middle + 1, high))

        return join(0, len(marks) - 1)

    def _binary(self, level: int) -> Expr:
        """Parse the binary operators of this precedence level and above; beyond the last, the unary ones."""
        if level == len(_LEVELS):
            token = self._token
            if token.is_("-") and self._peek().kind in (TokenKind.INT, TokenKind.FLOAT):
                return self._member()
            if not token.is_("!", "-"):
                return self._member()
            times, last = 0, token
            while self._token.is_(token.text):
                last = self._advance()
                times += 1
            if not _starts(self._token):
                if last.is_("-"):
                    self._no_way_on(last)
                else:
                    self._syntax(f"extraneous input {_shown(self._token)} expecting {{{self._expected()}}}")
                    self._advance()
                    if not _starts(self._token):
                        raise _StoppedError
            operand = self._member()
            return operand if times % 2 == 0 else self._call(token.at, f"{token.text}_", operand)
        expr = self._binary(level + 1)
        length = 0
        while mark := self._accept(*_LEVELS[level]):
            length += 1
            self._check_length(length)
            expr = self._call(mark.at, _OPERATORS.get(mark.text, f"_{mark.text}_"), expr, self._binary(level + 1))
        return expr

    def _no_way_on(self, begin: Token) -> None:
        """Report all text from a token to the current one as an error."""
        end = len(self._text) if self._token.kind is TokenKind.END else self._token.at + len(self._token.text)
        self._syntax(f"no viable alternative at input '{self._text[begin.at : end]}'")

    # -------------------------------------------------------------- members
    def _member(self) -> Expr:
        """Parse a primary expression with its selections, indices and method calls."""
        operand = self._primary()
        length = 0
        while mark := self._accept(".", "["):
            length += 1
            self._check_length(length)
            optional = self._accept("?") is not None
            if mark.text == "[":
                self._instead = "" if optional else "?"
                index = self._within("]")
                self._expect("]")
                operand = self._call(mark.at, "_[?_]" if optional else "_[_]", operand, index)
            else:
                name = self._token
                if name.kind not in _FIELDS:
                    self._no_name(mark, optional=optional)
                else:
                    self._advance()
                    field = name.text.strip("`")
                    if optional:
                        operand = self._call(mark.at, "_?._", operand, self._literal(name.at, field))
                    else:
                        paren = None if name.kind is TokenKind.ESCAPED else self._accept("(")
                        if paren is None:
                            operand = Select(operand, field, id=next(self._ids), at=mark.at)
                        else:
                            operand = self._expand(paren.at, field, operand, self._arguments())
        return operand

    def _no_name(self, dot: Token, *, optional: bool = False) -> None:
        """Report a missing name after a dot. Continue only before ``in``, which is an operator then."""
        if self._token.text in _LITERALS:
            expected = "{IDENTIFIER, ESC_IDENTIFIER}" if optional else "IDENTIFIER"
            self._syntax(f"mismatched input {_shown(self._token)} expecting {expected}")
        else:
            self._no_way_on(dot)
        if not self._token.is_("in"):
            raise _StoppedError

    def _arguments(self) -> tuple[Expr, ...]:
        """Parse arguments after the opening parenthesis, with the closing one."""
        args: list[Expr] = []
        if self._accept(")"):
            return ()
        self._instead = ")"
        args.append(self._within(",", ")"))
        while self._accept(","):
            args.append(self._within(",", ")"))
        self._expect(")")
        return tuple(args)

    def _primary(self) -> Expr:
        """Parse parentheses, a list, a map, a name or a constant."""
        token = self._token
        if token.is_("("):
            self._advance()
            inner = self._within(")")
            self._expect(")")
            return inner
        if token.is_("["):
            opening = self._advance()
            elements: list[Expr] = []
            optional: set[int] = set()
            self._instead = "],?"
            more = not self._token.is_("]") and not self._accept(",")
            while more:
                if self._accept("?"):
                    optional.add(len(elements))
                elements.append(self._within(",", "]"))
                more = self._comma_follows("]") and (_starts(self._token) or self._token.is_("?"))
            self._expect("]")
            return ListOf(tuple(elements), frozenset(optional), id=next(self._ids), at=opening.at)
        if token.is_("{"):
            opening = self._advance()
            entries: list[MapEntryNode] = []
            self._instead = "},?"
            more = not self._token.is_("}") and not self._accept(",")
            while more:
                is_optional = self._accept("?") is not None
                key = self._within(":")
                colon = self._expect(":")
                entries.append(MapEntryNode(key, self._within(",", "}"), is_optional, id=next(self._ids), at=colon.at))
                more = self._comma_follows("}") and (_starts(self._token) or self._token.is_("?"))
            self._expect("}")
            return MapOf(tuple(entries), id=next(self._ids), at=opening.at)
        if token.kind is TokenKind.IDENTIFIER or (token.is_(".") and self._peek().kind is TokenKind.IDENTIFIER):
            return self._name()
        if token.is_("."):
            self._no_name(self._advance())
            return self._literal(token.at, "")
        return self._constant()

    def _name(self) -> Expr:
        """Parse an identifier, a call of a function, or an object literal."""
        leading = self._accept(".")
        token = self._advance()
        name = f".{token.text}" if leading else token.text
        type_name, position = name, self._next
        while self._tokens[position].is_(".") and self._tokens[position + 1].kind is TokenKind.IDENTIFIER:
            type_name = f"{type_name}.{self._tokens[position + 1].text}"
            position += 2
        if self._tokens[position].is_("{"):
            self._next = position
            opening = self._advance()
            entries: list[MapEntryNode] = []
            more = not self._token.is_("}") and not self._accept(",")
            while more:
                optional = self._accept("?") is not None
                field = self._token
                if field.kind not in _FIELDS:
                    expected = ("" if optional else "'}', ',', '?', ") + "IDENTIFIER, ESC_IDENTIFIER"
                    self._syntax(f"mismatched input {_shown(self._token)} expecting {{{expected}}}")
                    raise _StoppedError
                self._advance()
                colon = self._expect(":")
                key = field.text.strip("`")
                entries.append(MapEntryNode(key, self._within(",", "}"), optional, id=next(self._ids), at=colon.at))
                more = self._comma_follows("}") and (self._token.kind in _FIELDS or self._token.is_("?"))
            self._expect("}")
            return StructNode(type_name, tuple(entries), id=next(self._ids), at=opening.at)
        if token.text in RESERVED:
            self._issue(token.at, f"reserved identifier: {token.text}")
        paren = self._accept("(")
        if paren is not None:
            return self._expand(paren.at, name, None, self._arguments())
        return Ident(name, id=next(self._ids), at=(leading or token).at)

    # -------------------------------------------------------------- constants
    def _constant(self) -> Expr:
        """Parse a literal. An integer that is out of range is an issue."""
        minus = self._accept("-")
        token = self._token
        sign = "-" if minus else ""
        position = (minus or token).at
        match token.kind:
            case TokenKind.INT:
                token = self._advance()
                value = _number(sign + token.text)
                if value is None or not -(2**63) <= value < 2**63:
                    self._issue(token.at, "invalid int literal")
                return Literal(value, INT, id=next(self._ids), at=position)
            case TokenKind.FLOAT:
                return Literal(float(sign + self._advance().text), DOUBLE, id=next(self._ids), at=position)
            case TokenKind.UINT:
                token = self._advance()
                value = _number(token.text[:-1])
                if value is None or value >= 2**64:
                    self._issue(token.at, "invalid uint literal")
                return Literal(UInt(value or 0), UINT, id=next(self._ids), at=token.at)
            case TokenKind.STRING | TokenKind.BYTES:
                return self._string(self._advance())
        word = self._accept("true", "false")
        if word is not None:
            return Literal(word.text == "true", BOOL, id=next(self._ids), at=position)
        if self._accept("null"):
            return Literal(None, NULL, id=next(self._ids), at=position)
        starts = _starts(self._peek()) and self._token.kind is not TokenKind.END
        kind = "extraneous" if starts else "mismatched"
        self._syntax(f"{kind} input {_shown(self._token)} expecting {{{self._expected()}}}")
        if kind == "mismatched":
            raise _StoppedError
        self._advance()
        return self._primary()

    def _expected(self) -> str:
        """Return the expected tokens: those of an operand, and the end of a list after its start."""
        allowed = [one for one in _EXPECTED.split() if one not in _NOT_OPERANDS or one in self._instead]
        return ", ".join(one if one.isupper() else f"'{one}'" for one in allowed)

    def _string(self, token: Token) -> Expr:
        try:
            if token.kind is TokenKind.BYTES:
                return Literal(unquote_bytes(token.text), BYTES, id=next(self._ids), at=token.at)
            return self._literal(token.at, unquote(token.text))
        except ValueError:
            text = "unable to unescape string" if token.kind is TokenKind.BYTES else "invalid unicode code point"
            self._issue(token.at, text)
            return self._literal(token.at, "")

    def _literal(self, at: int, text: str) -> Literal:
        return Literal(text, STRING, id=next(self._ids), at=at)

    # -------------------------------------------------------------- calls
    def _call(self, at: int, function: str, *args: Expr) -> CallNode:
        return CallNode(function, None, args, id=next(self._ids), at=at)

    def _expand(self, at: int, function: str, target: Expr | None, args: tuple[Expr, ...]) -> Expr:
        expander = self._macros.get(Key(function, len(args), method=target is not None))
        if expander is not None:
            try:
                expanded = expander(Builder(self._ids, at), target, args)
            except MacroError as error:
                self._issue(error.at, error.message)
                return Literal(None, NULL, id=next(self._ids), at=at)
            if expanded is not None:
                return expanded
        return CallNode(function, target, args, id=next(self._ids), at=at)


_MOST_DIGITS: Final = 100
"""Longer integers are out of range, so they are not converted."""


def _number(text: str) -> int | None:
    if len(text) > _MOST_DIGITS:
        return None
    return int(text, 16 if "x" in text else 10)


def _starts(token: Token) -> bool:
    """Report whether an operand can start with this token."""
    return token.is_(*_STARTS) or token.kind not in (TokenKind.SYMBOL, TokenKind.END, TokenKind.ESCAPED)


def _shown(token: Token) -> str:
    return f"'{token.text}'"
