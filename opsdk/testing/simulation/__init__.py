"""Seeded simulation of operators: plans of faults, a faulty network, replicas, invariants, shrinking.

Users import `opsdk.testing.simulate`.
"""
