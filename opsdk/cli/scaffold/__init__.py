"""``opsdk init`` and ``opsdk create``: scaffolding of a project."""
