"""``opsdk replay``: runs an operator again from its recording."""
