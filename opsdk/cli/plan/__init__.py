"""``opsdk plan`` and ``opsdk snapshot``: what an operator would do to a cluster, before it does it."""
