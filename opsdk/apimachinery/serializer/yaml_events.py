"""The parsers of YAML events: libyaml's, and PyYAML's with goyaml's end of a plain scalar.

Upstream: sigs.k8s.io/yaml/goyaml.v2/scannerc.go (yaml_parser_scan_plain_scalar).
"""

from __future__ import annotations

import re
from typing import Any, Final

import yaml
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner


class PythonParser(Reader, Scanner, Parser):
    """PyYAML's own parser, with goyaml's end of a plain scalar: where libyaml is missing, or has another rule."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)

    def scan_plain(self) -> Any:
        """Return a plain scalar, from the first of its characters to the last one that is not blank."""
        parts: list[str] = []
        spaces: list[str] = []
        start = end = self.get_mark()
        indent = self.indent + 1
        while self.peek() != "#" and (length := self._plain_length()):
            self.allow_simple_key = False
            parts += [*spaces, self.prefix(length)]
            self.forward(length)
            end = self.get_mark()
            spaces = self.scan_plain_spaces(indent, start) or []
            if not spaces or (not self.flow_level and self.column < indent):
                break
        return yaml.ScalarToken("".join(parts), True, start, end)

    def _plain_length(self) -> int:
        """Return how many characters go on with a plain scalar. Only a blank after a colon ends it there."""
        rest = (_FLOW_REST if self.flow_level else _BLOCK_REST).match(self.buffer, self.pointer)
        assert rest is not None  # it may be empty
        return len(rest[0])

    def forward(self, length: int = 1) -> None:
        """Skip characters. PyYAML looks at each of them, here a search finds line breaks."""
        end = self.pointer + length
        if _BREAK.search(self.buffer, self.pointer, end):
            super().forward(length)
            return
        self.pointer = end
        self.index += length
        self.column += length


_BLANK: Final = r"\0 \t\r\n\x85\u2028\u2029"
_BREAK: Final = re.compile("[\r\n\x85\u2028\u2029\ufeff]")
"""Line breaks, and the byte order mark, which has no column."""
_BLOCK_REST: Final = re.compile(rf"(?:[^:{_BLANK}]|:(?![{_BLANK}]))*+")
_FLOW_REST: Final = re.compile(rf"(?:[^:,?\[\]{{}}{_BLANK}]|:(?![{_BLANK}]))*+")
EventParser: Final[Any] = getattr(yaml, "CSafeLoader", PythonParser)
"""The fastest parser: that of libyaml, if PyYAML has it."""
