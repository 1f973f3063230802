"""The ``opsdk`` command. No other package of opsdk imports it."""
