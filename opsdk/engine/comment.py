"""Markdown that fits the comment of a pull request: what does not fit is counted, and the comment names it. Pure.

GitHub refuses a comment of more than 65,536 characters. The rest is for what a workflow adds to it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from opsdk.base.shortened import shortened

__all__ = ["MAX_COMMENT", "Block", "comment_lines", "one_line", "prose"]

MAX_COMMENT: Final = 60_000
"""Characters of a comment."""
_MAX_LINE: Final = 1_000
_RESERVED: Final = 600
"""Characters for the sentence about what was left out, and for the counts of blocks that were cut."""


class Block(msgspec.Struct, frozen=True, kw_only=True):
    """Lines that belong together, such as a folded object with its changes.

    Attributes:
        chunks: the lines between `head` and `tail`; each chunk is shown as a whole, or left out.
        noun: what one chunk is, for the sentence about what was left out.
        head: the lines before; without place for one chunk, the block is left out.
        tail: the lines after.
        rank: blocks of a lower rank get their place first.
        whole: what the block itself is, if all of it is left out; empty counts its chunks.
    """

    chunks: Sequence[Sequence[str]]
    noun: str
    head: Sequence[str] = ()
    tail: Sequence[str] = ()
    rank: int = 0
    whole: str = ""


def one_line(text: str) -> str:
    r"""Return a text without line breaks, cut to a length that no line of a comment exceeds.

    >>> one_line("a\nb")
    'a b'
    """
    return shortened(" ".join(text.splitlines()), _MAX_LINE)


def prose(text: str) -> str:
    """Return words of others as text of Markdown: they cannot open or close an element of HTML.

    >>> prose("</details> & more")
    '&lt;/details> &amp; more'
    """
    return text.replace("&", "&amp;").replace("<", "&lt;")


def comment_lines(title: Sequence[str], blocks: Sequence[Block], *, whole: str, limit: int = MAX_COMMENT) -> list[str]:
    """Return the lines of a comment. With their line breaks they have at most `limit` characters.

    Args:
        title: the first lines, which are never left out.
        blocks: in the order of the comment.
        whole: the command that prints everything.
        limit: characters.
    """
    begin = [one_line(line) for line in title]
    room = limit - _RESERVED - _size(begin)
    counts: dict[int, int] = {}
    for number in sorted(range(len(blocks)), key=lambda number: blocks[number].rank):
        counts[number], used = _fitting(blocks[number], room)
        room -= used
    lines, missing = list(begin), dict[str, int]()
    for number, block in enumerate(blocks):
        lines += _shown(block, counts[number])
        if rest := len(block.chunks) - counts[number]:
            is_gone = block.whole and not counts[number]
            noun = block.whole if is_gone else block.noun
            missing[noun] = missing.get(noun, 0) + (1 if is_gone else rest)
    if missing:
        lines += ["", _missing_text(missing, whole=whole, limit=limit)]
    return lines


def _fitting(block: Block, room: int) -> tuple[int, int]:
    """Return how many chunks fit, and the characters of the block with them."""
    used = _size(block.head) + _size(block.tail) + len(_more(block, len(block.chunks))) + 1
    for number, chunk in enumerate(block.chunks):
        size = _size(map(one_line, chunk))
        if used + size > room:
            return (number, used) if number else (0, 0)
        used += size
    return len(block.chunks), used


def _shown(block: Block, count: int) -> Iterator[str]:
    if not count:
        return
    yield from block.head
    for chunk in block.chunks[:count]:
        yield from map(one_line, chunk)
    if count < len(block.chunks):
        yield _more(block, len(block.chunks) - count)
    yield from block.tail


def _more(block: Block, rest: int) -> str:
    return f"... {rest} more {block.noun}{'s' if rest > 1 else ''}"


def _missing_text(missing: dict[str, int], *, whole: str, limit: int) -> str:
    counts = ", ".join(f"{count:,} {noun}{'s' if count > 1 else ''}" for noun, count in missing.items())
    return f"Left out, because this comment has at most {limit:,} characters: {counts}. `{whole}` prints the whole."


def _size(lines: Sequence[str] | Iterator[str] | map[str]) -> int:
    return sum(len(line) + 1 for line in lines)
