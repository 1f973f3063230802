"""Simulated controllers: small loops over storage watches, each switchable.

(Written now by another engineer of the team, 06:20 on; the server's author leaves this folder to them.)
"""
