# cython: language_level=3
"""Nothing of this module is used by other compiled modules."""
