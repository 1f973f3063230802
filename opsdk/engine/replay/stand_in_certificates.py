"""Certificates for the replay of an operator that issues its own: a recording has no private keys."""

from __future__ import annotations

import base64

import msgspec
from msgspec.structs import replace

from opsdk.aio.clock import utc_now
from opsdk.engine.replay.hidden_values import HiddenValues
from opsdk.webhook.certificates.manager import OWNED_LABEL
from opsdk.webhook.certificates.options import SelfSigned
from opsdk.webhook.certificates.rotation import RotationStep, advance

__all__ = ["learn_certificates"]


def learn_certificates(hidden: HiddenValues, response: bytes, options: SelfSigned) -> None:
    """Let the digests in the Secret of an operator's certificates stand for new certificates of the same names.

    They are valid from now on, so the replay keeps them, as most operators did. A Secret that the replay has written
    itself keeps its certificates.

    Args:
        hidden: gets the certificates.
        response: the Secret; others are ignored.
        options: of the operator's certificates.
    """
    if OWNED_LABEL.encode() not in response:
        return
    try:
        tree = msgspec.json.decode(response)
    except msgspec.DecodeError:
        return
    data = tree.get("data") if isinstance(tree, dict) and tree.get("kind") == "Secret" else None
    if not isinstance(data, dict) or any(hidden.knows(digest) for digest in data.values()):
        return
    namespace = options.namespace or tree["metadata"].get("namespace", "")
    bundle = advance(None, RotationStep.CREATE, replace(options, namespace=namespace), utc_now())
    for name, value in bundle.to_secret_data().items():
        if name in data:
            hidden.learn(data[name], base64.b64encode(value).decode())
