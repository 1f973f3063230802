"""``opsdk init`` and ``opsdk create``: the first files of a project."""
