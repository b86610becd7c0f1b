"""A process whose second thread forks while the first writes its lone record.

Its output is the child's exit code, whether the parent's record was delivered, and what its `close`
returned.
"""

import gc
import os
import signal
import sys
import threading

import kprod
from kprod.broker import EmbeddedCluster
from kprod.errors import ProducerForked
from tests.producer.direct_path.lone import TOPIC, LoneSends, hook_next_write, in_a_thread
from tests.producer.direct_path.sleeping import SETTLE_S, until, until_it_sleeps

LIMIT_S = 20  # a child that hangs is ended by an alarm
OK = 7


def _end_child(producer: kprod.Producer) -> None:
    """Leave the child, in which no thread has the sender's lock that was held at the fork."""
    code = 1
    try:
        assert gc.isenabled()
        for call in (lambda: producer.send(TOPIC, b"from the child"), producer.flush):
            try:
                call()
            except ProducerForked:
                continue
            raise AssertionError("the child's producer is usable")
        producer.close()
        code = OK
    finally:
        os._exit(code)


def main() -> None:
    """Run as the module says."""
    codes: list[int] = []
    parent = os.getpid()

    def fork() -> None:
        assert producer._kprod.path.direct_path._sender_lock.locked()
        pid = os.fork()
        if os.getpid() == parent:
            codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        else:
            signal.alarm(LIMIT_S)
            _end_child(producer)

    with (
        EmbeddedCluster(1, {TOPIC: 1}) as cluster,
        kprod.Producer(**cluster.client_settings(), linger_ms=0) as producer,
    ):
        lone = LoneSends(producer, cluster)
        until_it_sleeps(producer)
        main_thread = threading.get_ident()
        writers: list[int] = []

        def fork_in_a_thread() -> None:
            writers.append(threading.get_ident())
            in_a_thread(fork)

        hook_next_write(producer, fork_in_a_thread)
        future = lone.send()
        until(future.done)
        lone.check()
        is_delivered = future.exception(0) is None and writers == [main_thread]
        sys.stdout.write(f"{codes} {is_delivered} {producer.close(SETTLE_S)}")


if __name__ == "__main__":
    main()
