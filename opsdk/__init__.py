"""opsdk: Kubernetes operators in Python."""
