"""`Environment`: a local control plane for tests, in this process and without sockets by default."""

from __future__ import annotations

import functools
import secrets
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, TypeVar

from envtest.admission.plugins import PluginSelection
from envtest.controllers.ports import NONE, NoControllers, SimulatedControllers
from envtest.controllers.stages import DEFAULT_STAGES, Stage
from envtest.data.versions import chosen_version
from envtest.external import kubectl, port_exposure
from envtest.groups.core.rest.responders import Responders
from envtest.instruments import snapshots
from envtest.instruments.cluster_snapshots import load_cluster_snapshot, service_range_of
from envtest.instruments.faults import Faults
from envtest.instruments.hot_loop_guard import LIMIT, HotLoopGuard
from envtest.instruments.journal import Budget, Journal, StartUp
from envtest.plane import wait
from envtest.plane.authenticators import AccessOptions
from envtest.plane.bootstrap import publish_server_address, publish_trust
from envtest.plane.compaction import INTERVAL
from envtest.plane.control_plane import ControlPlane
from envtest.plane.data_folder import claim_folder
from envtest.plane.install import CRD, Installer, Webhooks, WebhookServing, prepare, read_objects
from envtest.plane.kubeconfig import user_kubeconfig
from envtest.plane.lifecycle import Startable
from envtest.plane.managed_fields import owners
from envtest.plane.pki import PKI, PROXIES, CertificateAuthority
from envtest.plane.stand_in import ROOT_CERTIFICATE
from envtest.plane.users import AuthenticatedUser
from opsdk.aio.clock import is_virtual
from opsdk.apiserver.auth.authentication import TokenAuthenticator
from opsdk.apiserver.auth.authorization import Authorizer
from opsdk.apiserver.auth.front_proxy import NAME
from opsdk.apiserver.auth.observed_rules import ObservingAuthorizer
from opsdk.apiserver.auth.user import MASTERS, User
from opsdk.apiserver.endpoints.audit import AuditLog
from opsdk.apiserver.server import Server
from opsdk.apiserver.storage.memory import MemoryStorage
from opsdk.apiserver.storage.ports import KeyNotFoundError, LocalStorage
from opsdk.apiserver.storage.snapshots import Snapshot
from opsdk.apiserver.webhook_client.connection_pools import ClientCertificate
from opsdk.engine.snapshot import ClusterSnapshot
from opsdk.engine.snapshot_file import read_snapshot_file
from opsdk.errors import ConfigError
from opsdk.http.asgi_types import App
from opsdk.http.server.server import ServeOptions, Tls, WebServer
from opsdk.rest.config import RestConfig
from opsdk.structured_merge.value import JsonObject
from opsdk.testing.eventually import Eventually, Pause, consistently

T = TypeVar("T")
LOCAL = "http://envtest.local"
"""The host of in-process requests."""
ADMIN = User(name="admin", uid="admin-uid", groups=(MASTERS,))


class Environment(Startable):
    """A control plane; an async context manager.

    ::

        async with Environment() as env:
            client = ...(env.config)

    Args:
        data_dir: the directory for objects and certificates, which the next start reads; None stores nothing.
        controllers: ``none`` for a bare API server, ``cluster`` for all simulated controllers, or names of
            kube-controller-manager's controllers; ``-name`` excludes one.
        stages: the rules for pod phases; by default pods become ready immediately, and pods of jobs succeed.
        controller_events: whether the controllers record Events.
        tokens: more users by bearer token.
        authorizer: replaces RBAC, the default. `AllowAuthenticated` allows every request with credentials.
        anonymous: authenticate requests without credentials as ``system:anonymous``; the bootstrap roles let them
            read only health and version.
        snapshot: the objects to start with, or the file of ``opsdk snapshot`` that has them. Webhooks and aggregated
            API servers of that cluster are not called. Its range of cluster IPs replaces `service_range`.
        service_range: the CIDR of cluster IPs; the default has 254 addresses.
        crds: CustomResourceDefinitions to serve from the start, as `opsdk.crd_for` returns them.
        crd_paths: files and directories with more definitions; other kinds in them are ignored.
        webhooks: admission webhooks that are called from the start.
        admission_plugins: built-in plugins to enable in addition to the default ones, by kube-apiserver's names:
            ``ServiceAccount``, ``OwnerReferencesPermissionEnforcement``.
        disable_admission_plugins: built-in plugins to disable.
        pki: existing certificates and keys; by default the environment creates its own.
        compaction_interval: seconds between compactions, after which old revisions and continue tokens expire with 410;
            0 never compacts.
        history_limit: writes that the journal keeps, and changes of each kind that watches may start from; a `storage`
            has its own.
        kubernetes: the version to serve: ``1.35``, ``1.36`` or ``1.37``. The default is the variable
            ``OPSDK_KUBERNETES_VERSION``, or 1.36.
        hot_loop_limit: requests of one user for one object without virtual time passing, after which the test fails
            with `HotLoopError`; 0 is no limit.

    Attributes:
        webhook_serving: the address and certificate of the webhook server; None without `webhooks`.
    """

    webhook_serving: WebhookServing | None = None
    _authority: CertificateAuthority | None = None
    _proxies: CertificateAuthority | None = None
    _journal: Journal | None = None
    _faults: Faults | None = None
    _webs: list[WebServer]

    def __init__(
        self,
        *,
        data_dir: Path | None = None,
        controllers: str | Collection[str] = NONE,
        stages: Sequence[Stage] = DEFAULT_STAGES,
        controller_events: bool = True,
        tokens: Mapping[str, User] | None = None,
        authorizer: Authorizer | None = None,
        anonymous: bool = True,
        storage: LocalStorage | None = None,
        snapshot: ClusterSnapshot | Path | str | None = None,
        service_range: str = "10.0.0.0/24",
        crds: Sequence[JsonObject] = (),
        crd_paths: Sequence[Path | str] = (),
        webhooks: Webhooks | None = None,
        admission_plugins: str | Collection[str] = (),
        disable_admission_plugins: str | Collection[str] = (),
        pki: PKI = PKI(),  # noqa: B008 - frozen
        compaction_interval: float = INTERVAL,
        history_limit: int = 10_000,
        hot_loop_limit: int = LIMIT,
        kubernetes: str | None = None,
    ) -> None:
        version, self._admin_token = chosen_version(kubernetes), secrets.token_urlsafe(24)
        self._pki, self._data_dir, self._crds, self._crd_paths = pki, data_dir, crds, crd_paths
        self._webhooks, self._history_limit, self._controller_events = webhooks, history_limit, controller_events
        if snapshot is not None:
            loaded = _read_snapshot(snapshot, storage or data_dir)
            storage = load_cluster_snapshot(loaded, history_limit=history_limit, kubernetes=version)
            service_range = service_range_of(loaded) or service_range
        self._again: JsonObject = {
            "controllers": controllers,
            "stages": stages,
            "controller_events": controller_events,
            "authorizer": authorizer,
            "anonymous": anonymous,
            "service_range": service_range,
            "admission_plugins": admission_plugins,
            "disable_admission_plugins": disable_admission_plugins,
            "pki": pki,
            "compaction_interval": compaction_interval,
            "history_limit": history_limit,
            "hot_loop_limit": hot_loop_limit,
            "kubernetes": version,
        }
        self.tokens = TokenAuthenticator({self._admin_token: ADMIN, **(tokens or {})}, audiences=pki.names.audiences)
        self.plane = ControlPlane(
            storage=storage or _open_storage(data_dir, history_limit, version),
            access=self._access(authorizer, anonymous=anonymous),
            service_range=_network(service_range),
            choice=PluginSelection.of(admission_plugins, disable_admission_plugins),
            identity=self._proxy_identity,
            compaction_interval=compaction_interval,
            kubernetes=version,
        )
        if hot_loop_limit:
            self.server.hooks.append(HotLoopGuard(limit=hot_loop_limit))
        self._simulated = self._simulate(controllers, stages, events=controller_events)
        self._stack, self._start_up, self._webs = AsyncExitStack(), StartUp(), []

    def _access(self, authorizer: Authorizer | None, *, anonymous: bool) -> AccessOptions:
        pki, folder = self._pki, self._data_dir
        return AccessOptions(
            authenticators=pki.authenticators(self._client_authorities, self._proxy_authorities),
            tokens=self.tokens,
            authorizer=authorizer,
            anonymous=anonymous,
            key_file=pki.signing_key or (None if folder is None else folder / "service-account.key"),
            more_keys=pki.token_keys,
            names=pki.names,
        )

    def _simulate(
        self, controllers: str | Collection[str], stages: Sequence[Stage], *, events: bool
    ) -> SimulatedControllers:
        if controllers == NONE:
            return NoControllers()
        from envtest.controllers.simulation import (  # noqa: PLC0415 - a bare server needs no controllers
            selected_controllers,
            simulate,
        )

        names = selected_controllers(controllers)
        self.plane.components.simulated = bool(names)
        return simulate(
            self.plane.core,
            self.server,
            self.tokens,
            names,
            sign=self.plane.access.key.sign,
            stages=stages,
            records_events=events,
            certificate=self._certificate,
            certify=self._certify,
        )

    def __repr__(self) -> str:
        return f"<Environment of {self.plane!r}>"

    @property
    def server(self) -> Server:
        """The server; ``server.app`` is the ASGI application."""
        return self.plane.server

    @property
    def kubernetes(self) -> str:
        """The version of Kubernetes that the server serves, such as ``1.36``."""
        return self.plane.kubernetes

    @property
    def config(self) -> RestConfig:
        """The configuration of in-process clients, as admin."""
        return self.config_for(self._admin_token)

    @property
    def responders(self) -> Responders:
        """The responders for exec, logs, port-forward and proxy: ``env.responders.run = ...``."""
        return self.plane.responders

    def config_for(self, token: str) -> RestConfig:
        """Return the configuration of in-process clients with a bearer token."""
        return RestConfig(host=LOCAL, token=token, app=self.server.app)

    @property
    def authority(self) -> CertificateAuthority:
        """The certificate authority; created on first use."""
        if self._authority is None:
            from envtest.plane.certificates import Authority  # noqa: PLC0415 - in-process tests need no certificates

            self._authority = Authority.load_or_create(self._data_dir)
        return self._authority

    @property
    def proxies(self) -> CertificateAuthority:
        """The CA of front proxies, whose ``X-Remote-User`` headers the server trusts."""
        if self._proxies is None:
            from envtest.plane.certificates import Authority  # noqa: PLC0415 - as above

            self._proxies = Authority.load_or_create(self._data_dir, PROXIES)
        return self._proxies

    def _proxy_identity(self) -> ClientCertificate:
        if self._pki.identity is not None:
            return self._pki.identity
        pair = self.proxies.client(NAME)
        return ClientCertificate(pair.cert, pair.key)

    def _certify(self, request: bytes, usages: Sequence[str], seconds: int | None) -> bytes:
        return self.authority.certify(request, usages, seconds)

    def _certificate(self) -> str:
        # Virtual time has no sockets: nothing is signed, and equal runs have equal objects.
        if self._authority is None and is_virtual():
            return ROOT_CERTIFICATE
        return self.authority.pair.cert.decode()

    def _trusted_ca_certificates(self) -> tuple[bytes, bytes]:
        """Return the CA certificates of clients and of front proxies."""
        return self._client_authorities(), self._proxy_authorities()

    def _client_authorities(self) -> bytes:
        return self.authority.pair.cert if self._pki.clients is None else self._pki.clients

    def _proxy_authorities(self) -> bytes:
        return self.proxies.pair.cert if self._pki.proxies is None else self._pki.proxies

    def add_user(self, user: User | str, *, groups: Sequence[str] = ()) -> AuthenticatedUser:
        """Add a user. Its permissions come from RBAC, or from the group ``system:masters``."""
        authenticated = User(name=user, groups=tuple(groups)) if isinstance(user, str) else user
        token = secrets.token_urlsafe(24)
        self.tokens.add(token, authenticated)
        return AuthenticatedUser(authenticated, self.config_for(token), lambda: self.authority)

    def observed_rbac(self) -> ObservingAuthorizer:
        """The requests of each user, and the minimal roles that allow them: ``env.observed_rbac().of("alice")``."""
        return self.plane.access.observed

    @property
    def audit(self) -> AuditLog:
        """The last requests: user, attributes and outcome."""
        return self.server.audit

    @property
    def local_apps(self) -> dict[str, App]:
        """ASGI applications by ``host:port``: the server calls these webhooks in process, without sockets."""
        return self.plane.webhook_client.apps

    async def _stop_controllers(self) -> None:
        await self._simulated.aclose()

    async def ensure_controllers(self, controllers: Collection[str]) -> None:
        """Start simulated controllers if the environment was created without any. It must be running."""
        if isinstance(self._simulated, NoControllers):
            self._simulated = self._simulate(controllers, DEFAULT_STAGES, events=self._controller_events)
            await self._simulated.start()

    # -------------------------------------------------------------- snapshots
    def snapshot(self) -> Snapshot:
        """Return a snapshot of all objects, without copying them."""
        return snapshots.take_snapshot(self.plane.storage)

    def restore(self, snapshot: Snapshot, *, reset_revision: bool = False) -> None:
        """Restore the objects of a snapshot. Open watches end with 410.

        Resource versions continue from the current one; with `reset_revision` from the snapshot's.
        """
        snapshots.restore_snapshot(self.plane, self._simulated, snapshot, reset=reset_revision)

    def stored(self, key: str) -> JsonObject | None:
        """Return the object with a storage key, such as ``apps/deployments/shop/web``; None without one."""
        try:
            return self.plane.storage.get_now(key)
        except KeyNotFoundError:
            return None

    async def place(self, key: str, obj: JsonObject | None) -> None:
        """Store an object as another cluster has it: its uid, status, managed fields and times stay.

        No admission runs. Watches see an update; for another uid a deletion and a creation.

        Args:
            key: of the storage, such as ``apps/deployments/shop/web`` or ``core/nodes/a``.
            obj: the object; None removes the one that is there.
        """
        await snapshots.place(self.plane, key, self.stored(key), obj)

    def fork(self) -> Environment:
        """Return an independent environment with the same objects and users; enter it to start it."""
        storage = snapshots.copy(self.plane.storage)
        fork = Environment(**self._again, storage=storage, tokens=self.tokens.users())
        snapshots.share(self.plane, fork.plane)
        fork._authority, fork._proxies = self._authority, self._proxies
        return fork

    # -------------------------------------------------------------- journal of writes
    @property
    def journal(self) -> Journal:
        """The journal of all writes; it records from the first use on."""
        if self._journal is None:
            self._journal = Journal(self.server, self.plane.storage, limit=self._history_limit)
            self._journal.start_up = self._start_up
            self._journal.start()
        return self._journal

    def writes(self, *, max: int, user: str = "", resource: str = "") -> Budget:  # noqa: A002 - the name reads best
        """Fail if the block ``async with env.writes(max=2):`` writes more, and name the writers."""
        return Budget(self.journal, max, user=user, resource=resource)

    def no_writes(self, *, user: str = "", resource: str = "") -> Budget:
        """Fail if the block ``async with env.no_writes():`` writes anything."""
        return self.writes(max=0, user=user, resource=resource)

    @staticmethod
    def owners(obj: JsonObject) -> dict[str, list[str]]:
        """Return the fields that each manager owns, from ``metadata.managedFields``."""
        return owners(obj)

    # -------------------------------------------------------------- faults
    @property
    def faults(self) -> Faults:
        """The fault rules: ``env.faults.add(Fail(503), verb="update", times=3)``.

        The effects are in `envtest.testing.effects`.
        """
        if self._faults is None:
            self._faults = Faults(self.server, self.plane.storage, self._webs)
        return self._faults

    # -------------------------------------------------------------- waiting
    def _pause(self) -> Pause:
        return functools.partial(wait.pause, storage=self.plane.storage)

    @property
    def eventually(self) -> Eventually:
        """`opsdk.testing.eventually.eventually`, with a call after each write too."""
        return Eventually(self._pause())

    async def consistently(
        self,
        probe: Callable[[], object],
        check: Callable[[Any], object] | None = None,
        *,
        during: float = 1.0,
        interval: float = 0.05,
    ) -> None:
        """See `opsdk.testing.eventually.consistently`; checks after each write too."""
        await consistently(probe, check, during=during, interval=interval, pause=self._pause())

    async def wait_for(self, revision: int | str, *, within: float = 5.0) -> None:
        """Return when the storage has reached a resource version."""
        storage = self.plane.storage

        def reached() -> None:
            assert storage.current_rv >= int(revision), f"the storage is at {storage.current_rv}, not at {revision} yet"

        await self.eventually(reached, within=within)

    async def serve(
        self, *, host: str = "127.0.0.1", port: int = 0, tls: bool = True, app: App | None = None
    ) -> WebServer:
        """Listen on a real socket too, until the environment closes; a busy port raises `ConfigError`.

        `app` replaces `server.app` there, for example with an application that wraps it and adds faults.
        """
        options = ServeOptions(host=host, port=port, tls=self._tls(host) if tls else None)
        web = WebServer(app or self.server.app, options)
        await web.start()
        self._stack.push_async_callback(web.aclose)
        if not self._webs:
            await publish_server_address(self.plane.core, web.port)
        self._webs.append(web)
        if tls:
            await self._publish_trust()
        return web

    def _tls(self, host: str) -> Tls:
        directory = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="envtest-")))
        cert, key = self._pki.serving or self.authority.serving(host).write(directory, "serving")
        ca = directory / "client-ca.crt"
        # Existing files may lack a final newline.
        ca.write_bytes(b"\n".join(self._trusted_ca_certificates()))
        return Tls(cert_file=cert, key_file=key, client_ca_file=ca if ca.read_bytes().strip() else None)

    async def expose(
        self, service: str, *, port: int = 443, host: str = "127.0.0.1", service_port: int = 443, app: App | None = None
    ) -> None:
        """Register the address of a Service (``namespace/name``): a host and port, or an application of this process.

        Webhooks and APIServices that name the Service call this address. A missing Service is created.
        """
        await self._publish_trust()
        await port_exposure.expose(self.plane, service, host=host, port=port, service_port=service_port, app=app)

    async def _publish_trust(self) -> None:
        clients, proxies = self._trusted_ca_certificates()
        pki = self._pki
        await publish_trust(self.plane.core, clients=clients, proxies=proxies, names=pki.proxy_names)

    def kubeconfig(self, web: WebServer) -> str:
        """Return a kubeconfig for the admin of a served environment."""
        if web.options.tls is None:
            return user_kubeconfig(web.url, token=self._admin_token)
        client = self.authority.client("admin", (MASTERS,))
        return user_kubeconfig(web.url, ca=self.authority.pair.cert, client=client)

    async def kubectl(
        self, *args: str, user: AuthenticatedUser | None = None, stdin: str = "", check: bool = True
    ) -> kubectl.Output:
        """Run the installed kubectl against this environment, as its admin or as `user`.

        Raises:
            ConfigError: kubectl is not installed, or it failed and `check` is True.
        """
        web = self._webs[0] if self._webs else await self.serve()
        text = self.kubeconfig(web) if user is None else user.kubeconfig(web)
        return await kubectl.run(text, args, stdin=stdin, check=check)

    async def start(self) -> None:
        """Create the bootstrap objects and start the controllers."""
        await self.plane.start()
        self._stack.callback(self.plane.close)
        self._stack.push_async_callback(self.plane.webhook_client.aclose)
        self._stack.push_async_callback(self.plane.flows.aclose)
        self._stack.push_async_callback(self.plane.aggregator.aclose)
        self._stack.push_async_callback(self._stop_controllers)
        await self._simulated.start()
        if self._crds or self._crd_paths or self._webhooks:
            from envtest.controllers.client import InProcessClient  # noqa: PLC0415 - most tests install no objects

            installer = Installer(
                InProcessClient(
                    self.server, token=self._admin_token, manager="envtest", version=self.plane.core.git_version
                ).send
            )
            options, serving = self._webhooks, None
            if options is not None:
                client = self.plane.webhook_client
                serving = prepare(options, client, self._stack, lambda: self.authority)
            self.webhook_serving = serving
            await installer.definitions([*self._crds, *read_objects(self._crd_paths, [CRD])], serving)
            if options is not None and serving is not None:
                kinds = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
                await installer.webhooks([*options.objects, *read_objects(options.paths, kinds)], serving)
        self._start_up = StartUp(self.plane.storage.current_rv, self.plane.keys())
        if self._journal is not None:
            self._journal.start_up = self._start_up
            self._journal.idle.clear()

    async def aclose(self) -> None:
        """Stop serving and end every watch; idempotent."""
        # End watches first: then streams end, and the web server does not wait for them.
        self.server.well_known.stopping = True
        self.plane.end_watches()
        await self._stack.aclose()


def _read_snapshot(snapshot: ClusterSnapshot | Path | str, other: object) -> ClusterSnapshot:
    """Return a snapshot, from its file if it is a path. Raises `ConfigError` if `other` has objects too."""
    if other is not None:
        raise ConfigError("snapshot, storage and data_dir each have objects to start with: pass one of them")
    return snapshot if isinstance(snapshot, ClusterSnapshot) else read_snapshot_file(snapshot)


def _open_storage(data_dir: Path | None, history_limit: int, version: str) -> LocalStorage:
    if data_dir is None:
        return MemoryStorage(history_limit=history_limit)
    from opsdk.apiserver.storage.sqlite import SqliteStorage  # noqa: PLC0415 - most tests have no data directory

    claim_folder(data_dir, version)
    return SqliteStorage(data_dir / "objects.db")


def _network(text: str) -> IPv4Network:
    try:
        return IPv4Network(text)
    except ValueError as error:
        raise ConfigError(f"{text!r} is not an IPv4 range: write it like 10.0.0.0/16 ({error})") from error
