"""Runs an operator against a state of a cluster in virtual time: snapshots, runs to a fixpoint, their differences.

``opsdk snapshot`` and ``opsdk plan`` are views of it.
"""
