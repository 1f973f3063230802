"""CEL as the API server uses it: its libraries, and types and values made from schemas."""
