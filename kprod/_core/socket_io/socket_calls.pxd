# cython: language_level=3
"""Nothing of this module is for other compiled modules."""
