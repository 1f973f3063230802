"""Makes every generated file of the repository: ``make generate`` writes them, ``make lint`` compares them.

One module for each output. `extract` renews the facts in ``sources/`` from a checkout of Kubernetes.
"""
