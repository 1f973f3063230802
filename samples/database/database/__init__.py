"""An operator for databases of an external service: a sample to copy."""
