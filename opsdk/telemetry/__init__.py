"""Frozen records of events inside opsdk, hooks that receive them, and log fields.

Only `opsdk.telemetry.prometheus` knows a metrics library.
"""
