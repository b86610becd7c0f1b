"""Record batches and message sets, written and read.

It serves `kprod.record`, `kprod.broker` and `kprod.compression`, and imports from the ground floor
and `memory`.
"""
