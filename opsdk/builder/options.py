"""Options of operators."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from opsdk.apimachinery.validation import dns_subdomain
from opsdk.base.place import caller_place
from opsdk.cluster.options import ClusterOptions
from opsdk.controller.options import ControllerOptions
from opsdk.errors import UsageError
from opsdk.manager.leader_election.lease_options import LeaseOptions
from opsdk.manager.options import ManagerOptions
from opsdk.rbac.check import RbacCheck
from opsdk.recording.options import RecordingOptions
from opsdk.webhook.options import WebhookServerOptions

COMPONENTS = ("controllers", "webhooks")


class OperatorOptions(LeaseOptions, frozen=True, kw_only=True):
    """Options of an `Operator`. Times are in seconds.

    Attributes:
        manager: health and metrics addresses, shutdown timeout.
        cluster: options of caches and clients.
        controller: for controllers without their own options.
        webhook: address and certificate of the webhook server, which runs if webhooks are declared.
        max_concurrent_reconciles_by_kind: number of workers of the controllers of a kind (``"Deployment.apps"``,
            ``"ConfigMap"``) without their own options, like controller-runtime's GroupKindConcurrency.
        namespace: the operator's own namespace, with its Lease and the Secret of its webhooks' certificates; empty for
            the pod's namespace, else that of the kubeconfig's context.
        leader_election: run controllers on one replica at a time.
        leader_election_id: the name of the Lease; empty for the operator's name.
        leader_election_namespace: the namespace of the Lease; empty for `namespace`.
        lease_duration: see `LeaderElectionOptions`.
        renew_deadline: see `LeaderElectionOptions`.
        retry_period: see `LeaderElectionOptions`.
        leader_election_thread: renew the lease in a thread, so that blocking code does not lose it. Ignored in virtual
            time and with a server in this process.
        leader_election_max_stall: if the event loop is blocked for longer, that thread stops renewing, so that another
            replica replaces this one; None for no limit.
        watchdog_limit: `Operator.run` logs code that blocks the event loop for longer than this; 0 disables
            the watchdog.
        rbac_check: what happens at the start when a declared RBAC permission is missing. The default only logs it: one
            branch of a reconciler may need it, and it may be granted while the operator runs.
        pause_config_map: name of a ConfigMap in the operator's namespace that pauses whole controllers, see
            `opsdk.builder.controller_pauses`; empty for none.
        components: what this process runs: ``controllers``, ``webhooks``, or both. A Deployment for webhooks only has
            no leader, and scales with the requests.
        journal_size: number of reconciles in `Operator.journal`; 0 for none.
        debug_objects: the debug page of reconciles also shows the objects that they read, for ``opsdk why
            --export-test``. Values of Secrets are hidden.
        recording: `Operator.run` records what the operator sees and sends, for ``opsdk replay``.
    """

    manager: ManagerOptions = ManagerOptions()
    cluster: ClusterOptions = ClusterOptions()
    controller: ControllerOptions = ControllerOptions()
    webhook: WebhookServerOptions = WebhookServerOptions()
    max_concurrent_reconciles_by_kind: Mapping[str, int] = msgspec.field(default_factory=dict)
    namespace: str = ""
    leader_election: bool = False
    leader_election_id: str = ""
    leader_election_namespace: str = ""
    leader_election_thread: bool = True
    leader_election_max_stall: float | None = 60.0
    watchdog_limit: float = 1.0
    rbac_check: RbacCheck = RbacCheck.WARN
    pause_config_map: str = ""
    components: tuple[str, ...] = COMPONENTS
    journal_size: int = 1000
    debug_objects: bool = False
    recording: RecordingOptions = RecordingOptions()

    def __post_init__(self) -> None:
        if not self.components or not set(self.components) <= set(COMPONENTS):
            raise UsageError(
                f"{caller_place()}: components is {self.components!r}: write controllers, webhooks, or both"
            )
        name: object = self.pause_config_map
        if not isinstance(name, str) or (name and dns_subdomain(name)):
            raise UsageError(
                f"{caller_place()}: pause_config_map is {name!r}: pass the name of a ConfigMap, such as website-pauses"
            )
