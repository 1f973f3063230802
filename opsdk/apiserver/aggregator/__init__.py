"""Group versions that other servers serve: who they are, whether they can be reached, requests and documents."""
