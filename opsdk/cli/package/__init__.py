"""``opsdk generate manifests`` and ``opsdk package``: packages an operator for a cluster."""
