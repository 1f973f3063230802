"""Options of the certificates that a webhook server issues for itself."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from opsdk.base.options import Options
from opsdk.errors import UsageError
from opsdk.webhook.certificates.injection import InjectionTarget
from opsdk.webhook.configurations import WebhookClientConfig, WebhookService

__all__ = ["SelfSigned"]

_DAY = 86400.0
# A replica that misses two reads in a row must still observe each rotation step before the next one.
_MIN_READS_PER_OVERLAP = 3


class SelfSigned(Options, frozen=True, kw_only=True):
    """A CA of the operator's own, in a Secret that all replicas share. Times are in seconds.

    >>> SelfSigned(service="website-webhook", namespace="demo").server_names()
    ('website-webhook.demo.svc', 'website-webhook.demo.svc.cluster.local', 'website-webhook.demo', 'website-webhook')

    Attributes:
        service: the Service in front of the webhook server; empty with `url`.
        url: ``https://host:port`` as the API server reaches a server outside the cluster, such as one on a laptop;
            empty with `service`.
        namespace: the namespace of Service and Secret; empty for the namespace of this process.
        secret_name: the name of the Secret; empty for ``<service>-tls``. Required with `url`.
        dns_names: more names and IP addresses in the certificate.
        configurations: the `name` that `webhook_configurations` got; empty for the operator's name. Both objects get
            the CA.
        inject: more objects whose ``caBundle`` is set, where they call this server.
        validity: how long a serving certificate lasts (cert-manager's default).
        renew_before: a serving certificate with less remaining validity is renewed.
        ca_validity: how long a CA lasts. It is replaced when it would end before a new serving certificate.
        overlap: how long two CAs are trusted before the new one signs, and again before the old one is dropped. It
            must exceed the time that replicas and API servers need to see a change.
        check_interval: time between two reads of the Secret and of the objects with a ``caBundle``.

    Raises:
        UsageError: both or neither of `service` and `url` are set, a name is missing, or the times are inconsistent.
    """

    service: str = ""
    url: str = ""
    namespace: str = ""
    secret_name: str = ""
    dns_names: Sequence[str] = ()
    configurations: str = ""
    inject: Sequence[InjectionTarget] = ()
    validity: float = 90 * _DAY
    renew_before: float = 30 * _DAY
    ca_validity: float = 3650 * _DAY
    overlap: float = 600.0
    check_interval: float = 10.0

    def __post_init__(self) -> None:
        if bool(self.service) is bool(self.url):
            raise UsageError("SelfSigned needs either service (in a cluster) or url (outside): the API server calls it")
        if self.url and not self.secret_name:
            raise UsageError("SelfSigned with url needs secret_name: the Secret that holds the CA and its key")
        if self.url and not (self.url.startswith("https://") and urlsplit(self.url).hostname):
            raise UsageError(f"{self.url!r} is not a URL such as https://192.0.2.1:9443")
        if not 0 < self.renew_before < self.validity:
            raise UsageError(f"renew_before is {self.renew_before:g}: it must be between 0 and validity")
        if self.ca_validity < 2 * self.validity:
            raise UsageError(f"ca_validity is {self.ca_validity:g}: it must be at least twice validity")
        if not 0 < self.check_interval * _MIN_READS_PER_OVERLAP <= self.overlap:
            raise UsageError(
                f"overlap is {self.overlap:g}: it must be at least {_MIN_READS_PER_OVERLAP} check_intervals"
            )
        if self.overlap * 2 > self.renew_before:
            raise UsageError(f"renew_before is {self.renew_before:g}: it must be at least twice overlap")

    @property
    def secret(self) -> str:
        """The name of the Secret."""
        return self.secret_name or f"{self.service}-tls"

    def client_config(self) -> WebhookClientConfig:
        """Return how the API server reaches this server, for `webhook_configurations`, without a ``caBundle``.

        Raises:
            UsageError: `namespace` is empty.
        """
        if self.url:
            return WebhookClientConfig(url=self.url)
        if not self.namespace:
            raise UsageError("the Service has no namespace: set SelfSigned.namespace, or use the operator's namespace")
        return WebhookClientConfig(service=WebhookService(name=self.service, namespace=self.namespace))

    def server_names(self) -> tuple[str, ...]:
        """Return the DNS names and IP addresses of the certificate; the first one is what the API server verifies."""
        if self.url:
            names = [str(urlsplit(self.url).hostname)]
        else:
            host = f"{self.service}.{self.namespace}"
            names = [f"{host}.svc", f"{host}.svc.cluster.local", host, self.service]
        return tuple(dict.fromkeys([*names, *(normalized_name(name) for name in self.dns_names)]))


def normalized_name(name: str) -> str:
    """Return a DNS name in lower case, or an IP address in its canonical form.

    >>> normalized_name("Localhost"), normalized_name("0:0::1")
    ('localhost', '::1')
    """
    try:
        return str(ip_address(name))
    except ValueError:
        return name.lower()
