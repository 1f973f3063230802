"""Test kit for users: virtual time, a manual clock, a pytest plugin.

No other package of opsdk imports it.
"""
