"""An operator that copies Secrets into other namespaces: a sample to copy."""
