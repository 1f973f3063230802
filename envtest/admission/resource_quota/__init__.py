"""Resource quotas: the usage of objects, the check against the hard limits, and the recorded usage."""
