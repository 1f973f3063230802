"""Error messages of Go's YAML parser. Pure.

Upstream: sigs.k8s.io/yaml/goyaml.v2.
"""

from __future__ import annotations

import re

import yaml
from yaml.scanner import ScannerError

_WORDS = (
    (r"expected the node content, but found .*", "did not find expected node content"),
    (r"expected ',' or '\]', but got .*", "did not find expected ',' or ']'"),
    (r"expected ',' or '\}', but got .*", "did not find expected ',' or '}'"),
    (r"expected '<document start>', but found .*", "did not find expected <document start>"),
    (r"found character (?:'\\t'|'.*') that cannot start any token", "found character that cannot start any token"),
    (r"mapping values are not allowed here", "mapping values are not allowed in this context"),
    (r"sequence entries are not allowed here", "block sequence entries are not allowed in this context"),
    (r"mapping keys are not allowed here", "mapping keys are not allowed in this context"),
    (r"expected escape sequence of .*", "did not find expected hexdecimal number"),
    (r"found unknown escape character .*", "found unknown escape character"),
    (r"found undefined alias '(.*)'", r"unknown anchor '\1' referenced"),
    (r"expected chomping or indentation indicators, but found .*", "did not find expected comment or line break"),
    (r"expected indentation indicator in the range .*", "found an indentation indicator equal to 0"),
    (r"expected (.*), but found .*", r"did not find expected \1"),
    (r"found unhashable key", "invalid map key"),
    (r"found incompatible YAML document .*", "found incompatible YAML document"),
    (r"found undefined tag handle .*", "found undefined tag handle"),
    (r"found duplicate YAML directive", "found duplicate %YAML directive"),
)
_BLOCKS = {
    "while parsing a block mapping": "did not find expected key",
    "while parsing a block collection": "did not find expected '-' indicator",
}


def yaml_words(error: yaml.YAMLError) -> str:
    """Return the error text after ``yaml: ``.

    As in goyaml, lines count from zero in parser errors and from one in scanner errors, and line zero is omitted.
    """
    if isinstance(error, yaml.reader.ReaderError):
        return "control characters are not allowed"
    if not isinstance(error, yaml.MarkedYAMLError):
        return str(error)
    problem = error.problem or "unknown problem parsing YAML content"
    if problem.startswith("expected <block end>, but found"):
        problem = _BLOCKS.get(error.context or "", "did not find expected key")
    for pattern, words in _WORDS:
        problem = re.sub(rf"\A{pattern}\Z", words, problem, flags=re.DOTALL)
    if problem.startswith("unknown anchor"):
        return problem
    for mark in (error.context_mark, error.problem_mark):
        scanning = isinstance(error, ScannerError)
        line = 0 if mark is None else mark.line if scanning else _line(mark)
        if line:
            return f"line {line + scanning}: {problem}"
    return problem


def error_line(error: yaml.YAMLError) -> int:
    """Return the line of an error in the text, from 1; 0 if it has none."""
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return 0 if mark is None else int(mark.line) + 1


def _line(mark: yaml.Mark) -> int:
    """Return the line, counted from zero; at the end of the text, the parser is on the next line."""
    ended = mark.buffer is not None and mark.buffer[mark.pointer : mark.pointer + 1] in ("", "\0")
    return int(mark.line) + (ended and mark.column > 0)


def utf8_words(error: UnicodeDecodeError) -> str:
    """Return the parser's message for bytes that are not UTF-8."""
    if error.reason == "unexpected end of data":
        return "incomplete UTF-8 octet sequence"
    return f"invalid {'trailing' if error.reason == 'invalid continuation byte' else 'leading'} UTF-8 octet"
