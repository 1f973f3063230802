"""Runs an operator beside its running leader, and compares what the two decide."""
