# cython: language_level=3
# cython: nonecheck=True, auto_pickle=False
# distutils: extra_compile_args = -Os
"""Wire numbers of the record formats; the declarations are in `layout.pxd`."""
