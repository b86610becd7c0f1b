"""The compiled core: the work that is done for each record, byte or timer.

It has a folder, called a room, for each noun: `memory`, `record`, `wire`, `outcome`, `timer`,
`socket_io`, `send`, `metrics`, `arrow`, `aio`. The modules beside the rooms are their ground floor.
`tests/test_rooms.py` says which room may import from which; `docs/architecture.md` has the table.

The core starts no thread, opens no socket, logs nothing and reads no configuration; `socket_io`
reads and writes descriptors that its callers have opened. Each `.pyx` has a `.pxd`, its table of
contents for other compiled modules, and a `.pyi` for Python. Of the rest of kprod the core imports
only `kprod.errors`; stubs also name types of `kprod.model`.
"""

__all__ = ()
