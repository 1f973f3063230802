"""The kit for tests: faults, journals of writes, snapshots, fixtures for pytest and unittest.

Here belongs what helps to write a test. What the API server needs to answer requests belongs to ``plane`` or below.
"""
