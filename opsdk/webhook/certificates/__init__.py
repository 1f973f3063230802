"""Certificates of webhook servers: an own CA, its Secret, rotation, and the ``caBundle`` of configurations.

Cores are pure: `bundle`, `issuing`, `rotation` and `injection` work on values. `manager` sends the requests, `serving`
has the TLS context.
"""
