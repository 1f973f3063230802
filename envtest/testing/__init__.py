"""The kit for tests: faults, journals of writes, snapshots, fixtures for pytest and unittest.

Only tests use this package. Code that the API server needs belongs to ``plane`` or below.
"""
