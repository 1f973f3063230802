"""The ranking of the site's search, as lunr and the theme configure it: enough to tell which page is found first."""

from __future__ import annotations

import html
import json
import math
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

TITLE_BOOST = 1000.0
"""mkdocs-material gives a word of the title this weight, and a word of the text 1."""
K1, B = 1.2, 0.75
"""Defaults of lunr's BM25."""
_TAG = re.compile(r"<[^>]+>")
_TOKEN = re.compile(r"[^\s\-_.()/:,;`'\"<>=\[\]]+")


@dataclass(frozen=True, slots=True)
class Hit:
    """A section of a page, with its score."""

    location: str
    title: str
    score: float


class SiteSearch:
    """Ranks the entries of ``search/search_index.json`` for a query."""

    def __init__(self, index: Path) -> None:
        self.entries = json.loads(index.read_text())["docs"]
        self._fields = {name: [Counter(tokens(entry[name])) for entry in self.entries] for name in ("title", "text")}
        self._sizes = {name: [counts.total() for counts in fields] for name, fields in self._fields.items()}

    def pages(self, query: str) -> list[Hit]:
        """Return the best section of each page that has every word of the query, best first."""
        best: dict[str, Hit] = {}
        for hit in sorted(self._hits(query), key=lambda hit: -hit.score):
            best.setdefault(hit.location.partition("#")[0], hit)
        return list(best.values())

    def _hits(self, query: str) -> list[Hit]:
        scores = [dict.fromkeys(tokens(query), 0.0) for _ in self.entries]
        for name, weight in (("title", TITLE_BOOST), ("text", 1.0)):
            sizes = self._sizes[name]
            mean = sum(sizes) / len(sizes)
            for word in tokens(query):
                frequencies = [sum(n for token, n in counts.items() if token == word) for counts in self._fields[name]]
                documents = sum(1 for n in frequencies if n)
                rarity = math.log(1 + (len(frequencies) - documents + 0.5) / (documents + 0.5))
                for number, n in enumerate(frequencies):
                    norm = K1 * (1 - B + B * sizes[number] / mean)
                    scores[number][word] += weight * rarity * n * (K1 + 1) / (n + norm)
        return [
            Hit(entry["location"], html.unescape(entry["title"]), sum(words.values()) * entry.get("boost", 1))
            for entry, words in zip(self.entries, scores, strict=True)
            if all(words.values())
        ]


def tokens(text: str) -> list[str]:
    """Return the stems of the words of a text, without markup."""
    return [stem(word.casefold()) for word in _TOKEN.findall(html.unescape(_TAG.sub(" ", text)))]


def stem(word: str) -> str:
    """Return a word without the ending of a plural or a verb.

    >>> [stem(word) for word in ("retries", "retry", "metrics", "paused", "pause", "status")]
    ['retri', 'retri', 'metric', 'paus', 'paus', 'status']
    """
    if word.endswith("ies") or (word.endswith("y") and len(word) > 3):
        return word.removesuffix("ies").removesuffix("y") + "i"
    if word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for ending in ("ing", "ed", "e"):
        if word.endswith(ending) and len(word) > len(ending) + 3:
            return word.removesuffix(ending)
    return word
