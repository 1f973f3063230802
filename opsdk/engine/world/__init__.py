"""The world of a run: an API server in this process, replicas of an operator, and what may go wrong between them."""
