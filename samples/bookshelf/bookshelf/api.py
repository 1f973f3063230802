"""The Book kind."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from opsdk import GroupVersionKind, Model, Object

GROUP = "shelf.opsdk.dev"


class BookSpec(Model):
    """What is written on it."""

    title: Annotated[str, Meta(min_length=1, description="As on the cover.")]
    author: Annotated[str, Meta(description="Who wrote it.")] = "unknown"
    pages: Annotated[int, Meta(ge=1, le=10_000)] = 1


class BookStatus(Model):
    """What became of it."""

    lent_to: str = ""


class Book(Object[BookSpec, BookStatus]):
    """A book."""

    gvk = GroupVersionKind(GROUP, "v1", "Book")
    short_names = ("bk",)
    categories = ("all",)
