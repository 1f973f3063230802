"""The faults of the simulation, and the alert that each of them fires."""

from __future__ import annotations

from dataclasses import dataclass

from monitored_simulation import BUSY, SPARSE, Workload

from opsdk.testing.simulate import Fault


@dataclass(frozen=True, kw_only=True)
class Row:
    """What a fault fires.

    Attributes:
        alert: the only alert; empty for none.
        reason: why there is no alert, or how the fault has to go on.
        workload: of the users meanwhile.
    """

    alert: str
    reason: str = ""
    workload: Workload = BUSY


_REPEATED = "Every four seconds; a single one heals itself."
_FAIL, _CONFLICT = "OpsdkApiRequestsFail", "OpsdkWritesConflict"
_DISCONNECTED, _BREAK = "OpsdkInformerDisconnected", "OpsdkWatchesBreak"

MATRIX: dict[Fault, Row] = {
    Fault.CUT_WATCHES: Row(alert=_BREAK, reason=_REPEATED),
    Fault.EXPIRE_WATCHES: Row(alert="OpsdkInformerRelists", reason=_REPEATED),
    Fault.REFUSE_WATCHES: Row(alert=_FAIL, reason="Without events there are few other requests."),
    Fault.ALWAYS_EXPIRED: Row(alert=_DISCONNECTED),
    Fault.SLOW_WATCHES: Row(alert="OpsdkInformerSilent"),
    Fault.CONFLICT: Row(alert=_CONFLICT),
    Fault.THROTTLE: Row(alert="OpsdkApiRequestsThrottled"),
    Fault.INTERNAL_ERROR: Row(alert=_FAIL),
    Fault.UNAVAILABLE: Row(alert=_FAIL),
    Fault.LOSE_ANSWERS: Row(alert=_FAIL),
    Fault.DELAY: Row(alert="OpsdkApiRequestsSlow"),
    Fault.PARTITION: Row(alert=_FAIL),
    Fault.BLACK_HOLE: Row(alert=_FAIL),
    Fault.SLOW_RECONCILE: Row(alert="OpsdkWorkersBusy", reason="With a change of a spec every second."),
    Fault.CRASH: Row(alert="OpsdkOperatorDown"),
    Fault.STOP: Row(alert="OpsdkOperatorDown"),
    Fault.CRASH_AFTER_WRITE: Row(alert="OpsdkOperatorRestarts", reason=_REPEATED),
    Fault.LOSE_ANSWER: Row(alert=_FAIL, reason=_REPEATED),
    Fault.CONFLICTING_WRITE: Row(alert=_CONFLICT, reason=_REPEATED),
    Fault.HIDE_EVENT: Row(alert=_DISCONNECTED, reason="With few writes: ten of them end it.", workload=SPARSE),
    Fault.SLOW_WATCH: Row(alert="OpsdkInformerSilent", reason="With few writes: ten of them end it.", workload=SPARSE),
    Fault.LOSE_LEASE: Row(alert="OpsdkNoLeader"),
    Fault.DELETE_CHILD: Row(alert="", reason="The operator creates the child again at once; nothing is left to do."),
    Fault.DELETE_IN_GAP: Row(alert=_BREAK, reason=_REPEATED),
}
"""Each fault lasts for two minutes."""

WITHOUT_FAULT: dict[str, str] = {
    "OpsdkEventLoopBlocked": "Blocking code takes no virtual time.",
    "OpsdkReconcilesFail": "The simulation has no faults of reconcilers; a reconciler that raises proves it.",
    "OpsdkSpecChangesWait": "As above, with a reconciler that raises for one object.",
    "OpsdkHotLoop": "As above, with a reconciler that writes a new value in each pass.",
    "OpsdkWritersFight": "The simulation has no second writer; written samples prove it.",
    "OpsdkObjectsUndecodable": "The server's schema refuses such objects; written samples prove it.",
    "OpsdkWebhooksFail": "The simulated operator has no webhooks; written samples prove it.",
    "OpsdkClusterNotReady": "The simulation has one cluster; written samples prove it.",
    "OpsdkErrorBudgetBurnsFast": "Two minutes of a fault burn too little of the budget; written samples prove it.",
    "OpsdkErrorBudgetBurnsSlowly": "As above.",
}
"""The alerts that no fault of the simulation fires, and why."""
