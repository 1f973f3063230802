"""Certificates of webhook servers: an own CA, its Secret, rotation, and the ``caBundle`` of configurations.

`bundle`, `issuing`, `rotation` and `injection` are pure. `manager` sends the requests, `serving` has the TLS context.
"""
