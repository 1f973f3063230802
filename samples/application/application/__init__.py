"""An operator for applications with ordered parts: a sample to copy."""
