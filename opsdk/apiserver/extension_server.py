"""An extension API server: custom kinds with delegated authentication and authorization.

Upstream: k8s.io/apiserver/pkg/server/genericapiserver.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence

from opsdk.apiserver.admission.chain import Chain
from opsdk.apiserver.auth.authentication import BearerAuthenticator
from opsdk.apiserver.auth.authentication_config import ClientAuthenticationConfig
from opsdk.apiserver.auth.certificate_chains import ChainVerifier
from opsdk.apiserver.auth.certificates import CertificateAuthenticator
from opsdk.apiserver.auth.delegated import DelegatedAuthorizer, DelegatedTokens
from opsdk.apiserver.auth.front_proxy import FrontProxyAuthenticator
from opsdk.apiserver.endpoints.openapi.v3 import OpenApi
from opsdk.apiserver.endpoints.routes import NonResourceRoutes
from opsdk.apiserver.registry.store import GenericStore
from opsdk.apiserver.resources import InstalledResource
from opsdk.apiserver.server import NotFound, ResourceServer, Server
from opsdk.apiserver.typed_resources import KindSchemas
from opsdk.rbac.delegated import DelegatedAuth, ReviewClient

__all__ = ["extension_server"]


def extension_server(
    resources: Sequence[InstalledResource],
    *,
    trust: ClientAuthenticationConfig,
    client: ReviewClient,
    title: str,
    version: str = "v0.0.0",
    admission: Chain | None = None,
) -> Server:
    """Return a server for aggregation. Serve its ``app`` with TLS that accepts client certificates of ``trust.bundle``.

    Args:
        resources: the served resources, e.g. from `opsdk.apiserver.typed_resources.resources_of`.
            ``/readyz`` fails while their storage does.
        trust: the client CA and request header settings.
        client: sends reviews to kube-apiserver, such as `Cluster.uncached`; see `DelegatedAuth`. Results are cached for
            10 s.
        title: ``info.title`` of the OpenAPI documents.
        version: for ``/version`` and the OpenAPI documents.
        admission: the admission chain.
    """
    auth = DelegatedAuth(client)
    core = ResourceServer(NotFound(), admission or Chain())
    for served in resources:
        core.install(served)

    stores = [served.storage for served in resources if isinstance(served.storage, GenericStore)]

    def storage_failure() -> str:
        # A storage of the program's own may have no `failure`.
        return next((text for store in stores if (text := getattr(store.storage, "failure", ""))), "")

    def well_known(server: Server) -> NonResourceRoutes:
        openapi = OpenApi(server.groups, [KindSchemas()], title=title, version=version)
        return NonResourceRoutes(
            server.groups, version={"gitVersion": version}, openapi=openapi, storage_failure=storage_failure
        )

    return Server(
        core,
        well_known=well_known,
        authenticators=[
            FrontProxyAuthenticator(ChainVerifier(trust.proxies), trust.names, headers=trust.headers),
            CertificateAuthenticator(ChainVerifier(trust.clients)),
            BearerAuthenticator([DelegatedTokens(auth)]),
        ],
        authorizer=DelegatedAuthorizer(auth),
    )
