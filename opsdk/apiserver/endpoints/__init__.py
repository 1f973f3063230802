"""HTTP in front of registries: request info, filters, negotiation, one handler for each verb, discovery, OpenAPI."""
