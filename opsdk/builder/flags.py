"""Command-line flags and environment variables of an operator program.

Names are those of controller-runtime's and kubebuilder's programs. A flag takes precedence over its environment
variable, which takes precedence over the option in the code. ``--leader-elect`` is ``OPSDK_LEADER_ELECT``.

Upstream: sigs.k8s.io/kubebuilder/pkg/plugins/golang/v4/scaffolds/internal/templates/cmd/main.go
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from opsdk.apimachinery.selectors import LabelRequirements
from opsdk.base.command_line import CommandLineParser
from opsdk.builder.options import OperatorOptions
from opsdk.errors import UsageError
from opsdk.rbac.check import RbacCheck
from opsdk.recording.options import RecordingMode
from opsdk.webhook.certificates.options import SelfSigned

_PREFIX = "OPSDK_"
# An RFC 1123 label.
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag.

    Attributes:
        name: without dashes.
        option: the option that it sets, such as ``webhook.port``; empty for an argument of `Operator.run`.
        parse: makes the value from its text.
        help: one line of help.
    """

    name: str
    option: str
    parse: Callable[[str], Any]
    help: str

    def parse_argument(self, text: str) -> Any:
        """Return the value of an argument. argparse shows the text of this error only."""
        try:
            return self.parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return _PREFIX + self.name.replace("-", "_").upper()


def _boolean(text: str) -> bool:
    words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}
    if text.lower() not in words:
        raise ValueError("use true or false")
    return words[text.lower()]


def _level(text: str) -> str:
    return text.upper()


def _levels(text: str) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in text.split(",")]
    if any(not name or not level for name, _, level in pairs):
        raise ValueError("use logger=level, separated by commas")
    return {name: level.upper() for name, _, level in pairs}


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if not _NAMESPACE.fullmatch(name):
            raise ValueError(f"{name!r} is not a namespace name: separate names with commas")
    return names


def _selector(text: str) -> LabelRequirements:
    try:
        return LabelRequirements.parse(text)
    except UsageError as error:
        raise ValueError(str(error)) from error


def _self_signed(service: str) -> SelfSigned:
    return SelfSigned(service=service)


FLAGS = (
    Flag("kubeconfig", "", str, "kubeconfig file; default: $KUBECONFIG, then in-cluster, then ~/.kube/config"),
    Flag("context", "", str, "kubeconfig context"),
    Flag("log-level", "", _level, "log level: debug, info, warning or error"),
    Flag("log-format", "", str, "log format: text or json"),
    Flag("log-levels", "", _levels, "levels of single loggers: opsdk.reconcile=debug,opsdk.requests=debug"),
    Flag("health-probe-bind-address", "manager.health_probe_bind_address", str, "host:port of /healthz and /readyz"),
    Flag("metrics-bind-address", "manager.metrics_bind_address", str, "host:port of /metrics"),
    Flag("metrics-secure-serving", "manager.metrics_secure_serving", _boolean, "serve the metrics with TLS"),
    Flag("metrics-cert-file", "manager.metrics_cert_file", str, "PEM certificate chain; default: self-signed"),
    Flag("metrics-key-file", "manager.metrics_key_file", str, "PEM private key"),
    Flag(
        "metrics-authentication",
        "manager.metrics_authentication",
        _boolean,
        "authenticate and authorize metrics requests",
    ),
    Flag("webhook-host", "webhook.host", str, "address of the webhook server; default: all interfaces"),
    Flag("webhook-port", "webhook.port", int, "port of the webhook server"),
    Flag("webhook-cert-dir", "webhook.cert_dir", str, "directory with tls.crt and tls.key of the webhook server"),
    Flag("webhook-service", "webhook.certificates", _self_signed, "issue certificates for the Service of this name"),
    Flag("debug-bind-address", "manager.debug_bind_address", str, "host:port of /debug/, such as 127.0.0.1:6060"),
    Flag("debug-objects", "debug_objects", _boolean, "show objects that reconciles read, for opsdk why --export-test"),
    Flag("recording-dir", "recording.directory", str, "record the run into this directory, for opsdk replay"),
    Flag("recording-mode", "recording.mode", RecordingMode, "write the recording always, on-request or on-panic"),
    Flag("shutdown-timeout", "manager.shutdown_timeout", float, "seconds for a graceful shutdown"),
    Flag(
        "max-concurrent-reconciles",
        "controller.max_concurrent_reconciles",
        int,
        "concurrent reconciles of each controller",
    ),
    Flag("reconciliation-timeout", "controller.reconciliation_timeout", float, "seconds for a reconcile; 0: no limit"),
    Flag(
        "namespace",
        "namespace",
        str,
        "namespace of the operator's Lease and webhook certificates; default: the namespace of the pod or the context",
    ),
    Flag(
        "watch-namespaces",
        "cluster.cache.namespaces",
        _names,
        "cache only these namespaces, separated by commas; default: all",
    ),
    Flag(
        "watch-namespace-selector",
        "cluster.cache.namespace_selector",
        _selector,
        "cache only the namespaces with these labels, such as env=prod; default: all",
    ),
    Flag("leader-elect", "leader_election", _boolean, "enable leader election"),
    Flag("leader-election-id", "leader_election_id", str, "name of the Lease; default: the operator's name"),
    Flag(
        "leader-election-namespace",
        "leader_election_namespace",
        str,
        "namespace of the Lease; default: --namespace",
    ),
    Flag("lease-duration", "lease_duration", float, "seconds before another replica may take an unrenewed Lease"),
    Flag("renew-deadline", "renew_deadline", float, "seconds a leader retries a renewal before it stops leading"),
    Flag("retry-period", "retry_period", float, "seconds between attempts to acquire or renew the Lease"),
    Flag("rbac-check", "rbac_check", RbacCheck, "what to do if a declared permission is missing: error, warn or off"),
    Flag(
        "pause-config-map",
        "pause_config_map",
        str,
        "name of the ConfigMap that pauses controllers, in --namespace; default: controllers cannot be paused",
    ),
    Flag("components", "components", _words, "what to run: controllers, webhooks, or both, separated by commas"),
    Flag("journal-size", "journal_size", int, "number of reconciles in the journal"),
)


def parse_flags(
    name: str, options: OperatorOptions, arguments: Sequence[str], environment: Mapping[str, str]
) -> tuple[OperatorOptions, dict[str, Any]]:
    """Return the options with the values of flags and environment, and the arguments of `Operator.run`.

    Ends the program for ``--help``, and with `USAGE_STATUS` for a wrong command line.

    Raises:
        UsageError: a value of the environment does not parse, or the options refuse a value.
    """
    parser = CommandLineParser(prog=name, allow_abbrev=False)
    for flag in FLAGS:
        parsed: dict[str, Any] = {"nargs": "?", "const": True} if flag.parse is _boolean else {}
        parser.add_argument(
            f"--{flag.name}",
            type=flag.parse_argument,
            default=None,
            help=f"{flag.help} [${flag.variable}]",
            metavar=flag.name.rpartition("-")[2].upper(),
            **parsed,
        )
    parser.add_argument("--print-crds", action="store_true", help="print the CustomResourceDefinitions, and exit")
    values = vars(parser.parse_args(arguments))
    run_arguments: dict[str, Any] = {"print_crds": values.pop("print_crds")}
    for flag in FLAGS:
        value = values[flag.name.replace("-", "_")]
        if value is None and flag.variable in environment:
            try:
                value = flag.parse(environment[flag.variable])
            except ValueError as error:
                raise UsageError(f"${flag.variable} is {environment[flag.variable]!r}: {error}") from error
        if value is None:
            continue
        if flag.option:
            options = _replace_option(options, flag.option.split("."), value)
        else:
            run_arguments[flag.name.replace("-", "_")] = value
    return options, run_arguments


def flags_in(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment that are flags. Others may hold secrets."""
    return {flag.variable: environment[flag.variable] for flag in FLAGS if flag.variable in environment}


def _replace_option(options: Any, path: Sequence[str], value: Any) -> Any:
    """Return frozen options with one field replaced; the field may be in a nested options object."""
    name, *rest = path
    return replace(options, **{name: _replace_option(getattr(options, name), rest, value) if rest else value})
