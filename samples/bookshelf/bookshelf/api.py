"""The Book kind."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from opsdk import GroupVersionKind, Model, Object

GROUP = "shelf.opsdk.dev"


class BookSpec(Model):
    """The book's title, author and length."""

    title: Annotated[str, Meta(min_length=1, description="The title on the cover.")]
    author: Annotated[str, Meta(description="The author.")] = "unknown"
    pages: Annotated[int, Meta(ge=1, le=10_000)] = 1


class BookStatus(Model):
    """The lending state."""

    lent_to: str = ""


class Book(Object[BookSpec, BookStatus]):
    """A book."""

    gvk = GroupVersionKind(GROUP, "v1", "Book")
    short_names = ("bk",)
    categories = ("all",)
