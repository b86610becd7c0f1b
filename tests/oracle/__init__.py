"""Slow, literal references, written from the formats' descriptions; they share nothing with kprod."""
