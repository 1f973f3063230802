"""Kubernetes Events: what an operator tells people about an object."""
