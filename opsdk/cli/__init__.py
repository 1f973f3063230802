"""The ``opsdk`` command. Nothing in opsdk imports it."""
