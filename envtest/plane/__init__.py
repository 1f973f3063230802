"""The running API server: how its parts are joined, who may enter, and what it publishes about itself.

Here belong the control plane, bootstrap objects, authentication and authorization, certificates, health, metrics and
flow control. Rules of single kinds belong to ``groups``, simulated controllers to ``controllers``.
"""
