"""Runs an operator against a state of a cluster in virtual time: snapshots, runs, their differences.

``opsdk snapshot`` and ``opsdk plan`` are views of it.
"""
