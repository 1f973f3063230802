"""The tables of a `SqlDatabase`.

Texts that are compared are stored as UTF-8 in binary columns: both databases then order them by code point, as Python
does, whatever collation and encoding they have.
"""

from __future__ import annotations

from typing import Final

from opsdk.base.extras import RequiredExtra

with RequiredExtra("norman-sql", "a store on SQL"):
    from sqlalchemy import (
        BigInteger,
        Column,
        ForeignKey,
        Index,
        Integer,
        LargeBinary,
        MetaData,
        String,
        Table,
        UniqueConstraint,
        text,
    )


# SQLite generates numbers only for INTEGER keys, which have 64 bits.
_NUMBER: Final = BigInteger().with_variant(Integer, "sqlite")

metadata: Final = MetaData()

collections: Final = Table(
    "norman_collections",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("name", String(255), nullable=False, unique=True),
    # Identifies the log: revisions of a recreated database differ from those of the previous one.
    Column("epoch", String(32), nullable=False),
    # Each write adds one, under the lock of this row: revisions have no gaps, and commit in their order.
    Column("revision", BigInteger, nullable=False),
    # The number of objects: to count 100,000 rows takes SQLite 8 ms, and PostgreSQL 60 ms.
    Column("size", BigInteger, nullable=False),
    Column("pruned", BigInteger, nullable=False),
)

fields: Final = Table(
    "norman_fields",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("collection", _NUMBER, ForeignKey("norman_collections.number"), nullable=False),
    Column("name", String(255), nullable=False),
    UniqueConstraint("collection", "name"),
)

objects: Final = Table(
    "norman_objects",
    metadata,
    Column("number", _NUMBER, primary_key=True),
    Column("collection", _NUMBER, ForeignKey("norman_collections.number"), nullable=False),
    Column("id", LargeBinary, nullable=False),
    Column("revision", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
    UniqueConstraint("collection", "id"),
)

order_keys: Final = Table(
    "norman_order_keys",
    metadata,
    Column("field", _NUMBER, ForeignKey("norman_fields.number"), primary_key=True),
    Column("object", _NUMBER, ForeignKey("norman_objects.number", ondelete="CASCADE"), primary_key=True),
    # At most 512 bytes, and an id has 2,000: PostgreSQL refuses index entries of more than 2,700 bytes.
    Column("key", LargeBinary, nullable=False),
    Column("id", LargeBinary, nullable=False),
    Index("norman_order_keys_object", "object"),
    Index("norman_order_keys_ascending", "field", "key", "id", "object"),
    # Equal values are in the ascending order of the ids here too.
    Index("norman_order_keys_descending", "field", text("key DESC"), "id", "object"),
)

digests: Final = Table(
    "norman_digests",
    metadata,
    Column("field", _NUMBER, ForeignKey("norman_fields.number"), primary_key=True),
    Column("digest", LargeBinary, primary_key=True),
    Column("object", _NUMBER, ForeignKey("norman_objects.number", ondelete="CASCADE"), primary_key=True),
    Index("norman_digests_object", "object"),
)

changes: Final = Table(
    "norman_changes",
    metadata,
    Column("collection", _NUMBER, ForeignKey("norman_collections.number"), primary_key=True),
    Column("revision", BigInteger, primary_key=True, autoincrement=False),
    Column("object_revision", BigInteger, nullable=False),
    Column("type", String(32), nullable=False),
    Column("data", LargeBinary, nullable=False),
)
