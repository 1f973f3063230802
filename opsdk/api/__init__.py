"""What objects are: group-version-kinds, metadata, typed and untyped objects, selectors, quantities, times.

Values only: nothing here talks to a server or knows a scheme. The typed built-in kinds live in
``opsdk.api.<group>.<version>`` (``opsdk.api.core.v1``, ``opsdk.api.apps.v1``, ...); they are generated, and
imported only where they are used.
"""
