"""The API server of Books: its strategy, its table columns, and its application."""

from __future__ import annotations

from bookshelf.api import GROUP, Book
from opsdk import Client
from opsdk.apiserver.auth.authentication_config import ClientAuthenticationConfig
from opsdk.apiserver.extension_server import extension_server
from opsdk.apiserver.registry.context import Context
from opsdk.apiserver.server import Server
from opsdk.apiserver.storage.ports import Storage
from opsdk.apiserver.typed_resources import FieldPrinter, KindStrategy, resources_of
from opsdk.structured_merge.value import JsonObject

ADDED_BY = f"{GROUP}/added-by"
_COLUMNS = FieldPrinter(("Title", "spec.title"), ("Author", "spec.author"), ("Pages", "spec.pages"))


class BookStrategy(KindStrategy):
    """Records the user that created a Book, which a CustomResourceDefinition cannot do."""

    def prepare_for_create(self, context: Context, obj: JsonObject) -> None:
        """Set the annotation `ADDED_BY` to the user of the request, whatever value the request has."""
        super().prepare_for_create(context, obj)
        obj["metadata"].setdefault("annotations", {})[ADDED_BY] = context.user.name

    def prepare_for_update(self, context: Context, obj: JsonObject, old: JsonObject) -> None:
        """Keep the annotation `ADDED_BY`."""
        super().prepare_for_update(context, obj, old)
        added = (old["metadata"].get("annotations") or {}).get(ADDED_BY)
        if added is not None:
            obj["metadata"].setdefault("annotations", {})[ADDED_BY] = added


def make_server(storage: Storage, trust: ClientAuthenticationConfig, client: Client) -> Server:
    """Return the API server; its ``app`` is the ASGI application."""
    books = resources_of(Book, storage, strategy=BookStrategy(Book), printer=_COLUMNS)
    return extension_server(books, trust=trust, client=client, title="bookshelf", version="v0.1.0")
