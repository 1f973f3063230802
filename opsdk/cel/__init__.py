"""The Common Expression Language with Kubernetes' libraries.

Start with `opsdk.cel.environment`: a `CelEnvironment` has variables, types and functions. Its `compile` returns a
`Program`, which estimates its maximum cost and evaluates any number of times.

Upstream: github.com/google/cel-go.
"""
