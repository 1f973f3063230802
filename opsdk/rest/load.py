"""Finds the configuration of this process.

Upstream: sigs.k8s.io/controller-runtime/pkg/client/config/config.go
"""

from __future__ import annotations

import os
from pathlib import Path

from opsdk.errors import ConfigError
from opsdk.rest.config import RestConfig
from opsdk.rest.in_cluster import in_cluster_config
from opsdk.rest.kubeconfig import config_from_files


def load_config(*, kubeconfig: str | Path | None = None, context: str | None = None) -> RestConfig:
    """Return the configuration of this process.

    The first that applies: the `kubeconfig` argument; the merged files in ``$KUBECONFIG``; the pod's service account,
    unless `context` is set; ``~/.kube/config``.

    Args:
        kubeconfig: path of a kubeconfig file.
        context: name of a context; default: the current context.

    Raises:
        ConfigError: there is no configuration, or it is invalid.
    """
    if kubeconfig is not None:
        return config_from_files([Path(kubeconfig)], context=context, required=True)
    listed = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if listed:
        return config_from_files(listed, context=context)
    home = Path("~/.kube/config").expanduser()
    in_pod: ConfigError | None = None
    if context is None:
        try:
            config = in_cluster_config()
        except ConfigError as error:
            # A pod without a service account may carry a kubeconfig.
            config, in_pod = None, error
        if config is not None:
            return config
    if in_pod is not None and not home.exists():
        raise in_pod
    if not home.exists():
        raise ConfigError(
            f"no cluster configuration: no kubeconfig argument, no $KUBECONFIG, not in a pod, no {home}: "
            "set $KUBECONFIG to the path of a kubeconfig; opsdk dev needs no cluster"
        )
    return config_from_files([home], context=context)
