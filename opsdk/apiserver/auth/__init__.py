"""Who asks, and may they: users, authenticators, the authorizer port."""
