"""The version of kprod: the one place that names it.

The build reads it from here, so that a program need not search its packages' metadata for it, which
takes longer than importing kprod.
"""

__version__ = "0.1.0"
