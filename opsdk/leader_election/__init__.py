"""Leader election on a Lease: pure rules, and the loop that follows them."""
