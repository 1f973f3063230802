"""The server: where books are kept, what holds for them, how they are listed."""

from __future__ import annotations

from bookshelf.api import GROUP, Book
from opsdk import Client, JsonObject
from opsdk.apiserver.auth.authentication_config import ClientAuthenticationConfig
from opsdk.apiserver.extension_server import extension_server
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.server import Server
from opsdk.apiserver.storage.ports import Storage
from opsdk.apiserver.typed_resources import FieldPrinter, KindStrategy, resources_of

ADDED_BY = f"{GROUP}/added-by"
_COLUMNS = FieldPrinter(("Title", "spec.title"), ("Author", "spec.author"), ("Pages", "spec.pages"))


class BookStrategy(KindStrategy):
    """What no definition could do: the server knows who asks."""

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Write down who added it, whatever they say themselves."""
        super().prepare_for_create(context, obj)
        obj["metadata"].setdefault("annotations", {})[ADDED_BY] = context.user.name

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """That stays."""
        super().prepare_for_update(context, obj, old)
        added = (old["metadata"].get("annotations") or {}).get(ADDED_BY)
        if added is not None:
            obj["metadata"].setdefault("annotations", {})[ADDED_BY] = added


def make_server(storage: Storage, trust: ClientAuthenticationConfig, client: Client) -> Server:
    """The server; ``app`` is the ASGI application."""
    books = resources_of(Book, storage, strategy=BookStrategy(Book), printer=_COLUMNS)
    return extension_server(books, trust=trust, client=client, title="bookshelf", version="v0.1.0")
