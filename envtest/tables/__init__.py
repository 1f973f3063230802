"""What Kubernetes serves, as data: `schemas.txt` and `resources.txt` are made by ``tools/tables/generate.py``."""
