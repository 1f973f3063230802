"""Longer runs of opsdk's runtime alone, with real processes: ``python -m benchmarks.runtime NAME``."""
