"""The pages of one list. Pure: a server that never ends a list gets an error instead of another request."""

from __future__ import annotations

from typing import Final

from opsdk.base.limits import MIB
from opsdk.errors import ResponseLimitError

LIST_BYTES: Final = 1024 * MIB
"""Memory of a list with all its pages. The default quota of etcd for a whole cluster is 2 GiB."""
OBJECT_BYTES: Final = 512
"""What an object of a list costs besides its JSON, as measured with the smallest objects."""
MOST_PAGES: Final = 100_000
"""Pages of one list: 50 million objects in pages of 500."""
MOST_EMPTY: Final = 1_000
"""Pages in a row without a new object. A client that filters on its own side may see some."""


class Pages:
    """Checks the continue tokens of one list.

    >>> pages = Pages("pods")
    >>> pages.check("a", progress=True)
    >>> pages.check("a", progress=True)
    Traceback (most recent call last):
    ...
    opsdk.errors.ResponseLimitError: the list of pods repeats a continue token on page 2, so it would never end
    """

    __slots__ = ("_empty", "_listed", "_tokens")

    def __init__(self, listed: object) -> None:
        self._listed = listed
        self._tokens: set[int] = set()
        self._empty = 0

    def check(self, token: str, *, progress: bool) -> None:
        """Check the token that leads to the next page.

        Args:
            token: the continue token of the page that has arrived.
            progress: whether that page had a new object.

        Raises:
            ResponseLimitError: the list repeats a page, brings no objects, or has too many pages.
        """
        number = len(self._tokens) + 1
        self._empty = 0 if progress else self._empty + 1
        key = hash(token)
        if key in self._tokens:
            problem = f"repeats a continue token on page {number}, so it would never end"
        elif self._empty >= MOST_EMPTY:
            problem = f"has had no new object for {self._empty} pages"
        elif number >= MOST_PAGES:
            problem = f"has more than {MOST_PAGES} pages: choose larger pages, or select fewer objects"
        else:
            self._tokens.add(key)
            return
        raise ResponseLimitError(f"the list of {self._listed} {problem}")

    def __repr__(self) -> str:
        return f"<Pages of {self._listed}: {len(self._tokens)}>"
