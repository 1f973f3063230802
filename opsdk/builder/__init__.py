"""Operator and controller builder: connect manager, cluster, controllers and leader election.

Upstream: sigs.k8s.io/controller-runtime/pkg/builder
"""
