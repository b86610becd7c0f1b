"""The compiled core: bytes and counters. No socket, no thread, no logging, no configuration.

Each `.pyx` has a `.pxd`, its table of contents for other compiled modules, and a `.pyi` for Python.
It imports nothing of kprod but `kprod.errors`.
"""
