"""The core group: pods, services, nodes, volumes, namespaces, configuration, quotas.

Other groups may import this one, because they hold pod templates and refer to core kinds; it imports none of them.
"""
