"""Slow, literal references, written from descriptions of formats; they share nothing with kprod."""
