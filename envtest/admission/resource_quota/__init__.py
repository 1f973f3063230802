"""Resource quotas: what objects count for, whether they fit, and what is used."""
