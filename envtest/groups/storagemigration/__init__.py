"""The group storagemigration: storage version migrations, which Kubernetes serves from 1.37 on.

Rules that other groups need, too, belong to ``core`` or ``common``.
"""
