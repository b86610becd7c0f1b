"""Load for a cluster, measured: what `kprod perf` and the race of `benchmarks` have in common.

`workload` says what to send, `pace` when, `payloads` with which values. `perf_run` carries that out
in one process, in which `client_loops` drives kprod or another client; `perf_child` is that
process. `perf_round` starts as many of them as wanted and puts together what they count.

Thread-safety: see each module.
"""

__all__ = ()
