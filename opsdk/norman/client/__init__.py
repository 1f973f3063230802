"""The client of a Norman API, and typed stubs for one.

Contains the code for programs that call such an API. Not here: clients of Kubernetes (`opsdk.client`).
"""
