"""The root certificate of an environment in virtual time, which has no sockets.

Its private key is gone: nothing was or will be signed with it. Equal runs have equal objects with it, and an
environment without sockets needs no key of its own.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ROOT_CERTIFICATE"]

ROOT_CERTIFICATE: Final = """\
-----BEGIN CERTIFICATE-----
MIIBPTCB5KADAgECAgEBMAoGCCqGSM49BAMCMB0xGzAZBgNVBAMMEmVudnRlc3Qt
aW4tcHJvY2VzczAgFw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowHTEb
MBkGA1UEAwwSZW52dGVzdC1pbi1wcm9jZXNzMFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAEPn0eEVTX+dBM5RcKh2ed2YCnQlWtbLWr5GEibrGLmAo4X3px5HfXyrbf
I/9Fg7k7E6FJ7nLyegl04trp77DpnqMTMBEwDwYDVR0TAQH/BAUwAwEB/zAKBggq
hkjOPQQDAgNIADBFAiEAyf7eafiqXw8LkDO0EHSy32JNRuHKgCX9qZ6UIHPY9doC
IHrateazE1JXZywiHSi71fDMEEZvRx+odrqh3gVRGxUv
-----END CERTIFICATE-----
"""
"""PEM; valid from 2020 to 2120."""
