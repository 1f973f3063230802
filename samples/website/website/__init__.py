"""An operator for websites: a sample to copy."""
