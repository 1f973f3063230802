"""The printers of all groups; loaded with the first table, because most tests print none."""

from __future__ import annotations

from collections.abc import Mapping

from envtest.data.columns import has_columns
from envtest.data.versions import DEFAULT
from envtest.groups.admissionregistration import printers as admissionregistration_printers
from envtest.groups.apiextensions import printers as apiextensions_printers
from envtest.groups.apiregistration import printers as apiregistration_printers
from envtest.groups.apps import printers as apps_printers
from envtest.groups.autoscaling import printers as autoscaling_printers
from envtest.groups.batch import printers as batch_printers
from envtest.groups.certificates import printers as certificates_printers
from envtest.groups.common.printing import DefaultPrinter, KindPrinter
from envtest.groups.coordination import printers as coordination_printers
from envtest.groups.core import printers as core_printers
from envtest.groups.discovery import printers as discovery_printers
from envtest.groups.events import printers as events_printers
from envtest.groups.flowcontrol import printers as flowcontrol_printers
from envtest.groups.networking import printers as networking_printers
from envtest.groups.node import printers as node_printers
from envtest.groups.policy import printers as policy_printers
from envtest.groups.rbac import printers as rbac_printers
from envtest.groups.resource import printers as resource_printers
from envtest.groups.scheduling import printers as scheduling_printers
from envtest.groups.storage import printers as storage_printers
from envtest.groups.storagemigration import printers as storagemigration_printers
from opsdk.apiserver.resources import Printer

PRINTERS: Mapping[str, KindPrinter] = {
    **admissionregistration_printers.PRINTERS,
    **apiextensions_printers.PRINTERS,
    **apiregistration_printers.PRINTERS,
    **apps_printers.PRINTERS,
    **autoscaling_printers.PRINTERS,
    **batch_printers.PRINTERS,
    **certificates_printers.PRINTERS,
    **coordination_printers.PRINTERS,
    **core_printers.PRINTERS,
    **discovery_printers.PRINTERS,
    **events_printers.PRINTERS,
    **flowcontrol_printers.PRINTERS,
    **networking_printers.PRINTERS,
    **node_printers.PRINTERS,
    **policy_printers.PRINTERS,
    **rbac_printers.PRINTERS,
    **resource_printers.PRINTERS,
    **scheduling_printers.PRINTERS,
    **storage_printers.PRINTERS,
    **storagemigration_printers.PRINTERS,
}
"""By ``group/resource``; other kinds print their name and age."""


def printer_of(key: str, version: str = DEFAULT) -> Printer:
    """Return the printer of ``group/resource`` in a version of Kubernetes.

    A kind without columns there prints its name and creation timestamp.
    """
    printer = PRINTERS.get(key)
    return printer.in_version(version) if printer is not None and has_columns(key, version) else DefaultPrinter()
