"""What reconcilers do all day: owner references, finalizers, conditions, create-or-update. No state, no loops."""
