"""Sends HTTP/1.1 requests: response parser, connections, pool, upgrades, and an application in this process."""
