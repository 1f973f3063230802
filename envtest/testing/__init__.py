"""The kit for tests: faults, journals of writes, snapshots, fixtures for pytest and unittest.

Only tests use this package. Code that the API server needs to answer requests belongs to ``plane`` or below.
"""
