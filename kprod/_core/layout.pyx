# cython: language_level=3
"""Wire numbers of the record formats; the declarations are in `layout.pxd`."""
