"""The running API server: its assembly, authentication, authorization, health and metrics.

Here belong the control plane, bootstrap objects, authentication and authorization, certificates, health, metrics and
flow control. Rules of single kinds belong to ``groups``, simulated controllers to ``controllers``.
"""
