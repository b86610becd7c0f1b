"""Fuzzing of everything that decodes bytes from strangers; `python -m tests.fuzz` runs it."""
