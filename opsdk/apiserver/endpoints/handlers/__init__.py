"""One file for each verb: get, list, watch, create, update, patch, delete, connect.

Upstream: k8s.io/apiserver/pkg/endpoints/handlers (v1.36).
"""
