"""The client of a Norman API, and typed stubs for one.

Here belongs what a program needs that calls such an API. Not here: clients of Kubernetes (`opsdk.client`).
"""
