"""``opsdk deploy`` and ``opsdk undeploy``."""
