"""Writes to a database until it is killed, and prints what is stored: the process that `test_sql_processes` starts.

Arguments: the URL, the name of the writer, and how many writes; 0 for no end.
"""

from __future__ import annotations

import asyncio
import itertools
import sys

from normankit import V3, api_context

from opsdk.norman.errors import NormanError
from opsdk.norman.model import Schema
from opsdk.norman.schema_parts import Field, Filter
from opsdk.norman.stores.sql import SqlStore
from opsdk.norman.stores.sql_database import SqlDatabase, SqlOptions

COUNTERS = Schema(
    id="counter",
    version=V3,
    resource_fields={"name": Field(type="string"), "count": Field(type="int")},
    collection_filters={"name": Filter(), "count": Filter()},
)


async def write(url: str, writer: str, count: int) -> None:
    """Create objects, and count in one object that all writers share, with its revision."""
    async with SqlDatabase(url, SqlOptions(lock_timeout=60)) as database, SqlStore(database, "counters") as store:
        context = api_context()
        for number in range(count) if count else itertools.count():
            await store.create(context, COUNTERS, {"name": f"{writer}-{number}", "count": number})
            print(number, flush=True)  # noqa: T201 - the answer that the client gets
            while True:
                shared = await store.by_id(context, COUNTERS, "shared")
                changes = {"count": shared["count"] + 1, "resourceVersion": shared["resourceVersion"]}
                try:
                    await store.update(context, COUNTERS, changes, "shared")
                except NormanError as error:
                    if error.code != "Conflict":
                        raise
                    continue
                break


if __name__ == "__main__":
    asyncio.run(write(sys.argv[1], sys.argv[2], int(sys.argv[3])))
