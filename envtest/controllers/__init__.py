"""Simulated controllers: what a real cluster's controllers and kubelets would do, at once and in a simple form."""
