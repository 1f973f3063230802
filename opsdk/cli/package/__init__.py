"""``opsdk generate manifests`` and ``opsdk package``: an operator in a cluster."""
