"""The users' test kit: virtual time, a pytest plugin, fault plans, assertions.

Nothing in opsdk outside this package imports it.
"""
