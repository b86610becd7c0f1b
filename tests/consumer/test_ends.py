"""The ends of a consumer, by processes that end so: nothing hangs, and the parent is left alone."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator

import pytest

from kprod.broker import EmbeddedCluster
from tests.consumer.reading import consumer_of, fill, poll_count

TIMEOUT_S = 60.0  # ends a broken test
COUNT = 2_000
INTERRUPTION_COUNT = 20
MANY = 50_000  # take milliseconds to decode

_HEAD = """
import os, signal, sys, threading, warnings
import kprod
T0 = kprod.TopicPartition("t", 0)
SERVERS = {servers!r}
consumer = kprod.Consumer(bootstrap_servers=SERVERS, auto_offset_reset="earliest")
consumer.assign([T0])
def say(*words):
    print(*words, flush=True)
"""


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    """One broker with records."""
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as made:
        fill(made, "t", COUNT)
        yield made


def start(cluster: EmbeddedCluster, body: str, stdin: int | None = None) -> "subprocess.Popen[str]":
    """A process that has a consumer, and does something."""
    script = _HEAD.format(servers=cluster.bootstrap_servers) + textwrap.dedent(body)
    return subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def run(cluster: EmbeddedCluster, body: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of such a process."""
    with start(cluster, body) as process:
        try:
            out, err = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return process.returncode, out, err


def test_an_exit_without_close(cluster: EmbeddedCluster) -> None:
    """As with it: at once, and silently."""
    code, out, err = run(cluster, "say(len(consumer.poll(10, 5)))")
    assert (code, out, err) == (0, "5\n", "")


def test_an_exit_while_the_broker_is_silent(cluster: EmbeddedCluster) -> None:
    """With a fetch out, and two consumers open."""
    body = """
        other = kprod.Consumer("t", bootstrap_servers=SERVERS, auto_offset_reset="earliest")
        say(len(consumer.poll(10, 5)), len(other.poll(10, 5)))
        sys.stdin.readline()
        """
    with start(cluster, body, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "5 5\n"
        cluster.faults.stall(0)
        try:
            out, err = process.communicate("\n", timeout=TIMEOUT_S)
        finally:
            cluster.faults.resume(0)
    assert (process.returncode, out, err) == (0, "", "")


def test_an_exception_leaves_the_loop(cluster: EmbeddedCluster) -> None:
    """Its traceback is all that is said."""
    code, out, err = run(
        cluster,
        """
        with consumer:
            for record in consumer:
                if record.offset == 3:
                    raise ZeroDivisionError("mine")
        """,
    )
    assert (code, out) == (1, "")
    assert err.rstrip().endswith("ZeroDivisionError: mine")
    assert "kprod" not in err.splitlines()[-1]


def test_a_thread_that_still_polls_at_exit(cluster: EmbeddedCluster) -> None:
    """It is told that the consumer is closed, and does not keep the process."""
    code, out, err = run(
        cluster,
        """
        def read():
            try:
                while True:
                    consumer.poll()
            except kprod.errors.ClosedError:
                say("closed")
        thread = threading.Thread(target=read)
        thread.start()
        threading.Event().wait(0.2)
        consumer.close()
        thread.join()
        """,
    )
    assert (code, out, err) == (0, "closed\n", "")


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("way", ["poll", "iterate"])
def test_ctrl_c_while_waiting(cluster: EmbeddedCluster, way: str) -> None:
    """It is raised at once, and reading continues where it was."""
    body = f"""
        seen = len(consumer.poll(10, {COUNT}))
        while seen < {COUNT}:
            seen += len(consumer.poll(10))
        try:
            say("waiting")
            {"consumer.poll()" if way == "poll" else "next(iter(consumer))"}
        except KeyboardInterrupt:
            say("interrupted at", consumer.position(T0))
        consumer.seek(T0, {COUNT - 1})
        say("then", consumer.poll(10)[0].offset)
        """
    with start(cluster, body) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert out == f"interrupted at {COUNT}\nthen {COUNT - 1}\n"
    assert (process.returncode, err) == (0, "")


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("way", ["poll", "iterate"])
def test_ctrl_c_at_the_beginning_of_a_wait(cluster: EmbeddedCluster, way: str) -> None:
    """Many times, as soon as the call is made: where it is decided to wait, and before it."""
    body = f"""
        import faulthandler
        consumer.close()
        consumer = kprod.Consumer(bootstrap_servers=SERVERS, fetch_max_wait_ms=20)
        consumer.assign([T0])
        for _ in range({INTERRUPTION_COUNT}):
            faulthandler.dump_traceback_later({TIMEOUT_S / 4}, exit=True)
            consumer.seek(T0, {COUNT - 1})
            consumer.poll(10)
            try:
                say("waiting")
                {"consumer.poll()" if way == "poll" else "next(iter(consumer))"}
            except KeyboardInterrupt:
                continue
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        """
    with start(cluster, body) as process:
        assert process.stdout is not None
        for _ in range(INTERRUPTION_COUNT):
            if process.stdout.readline():  # else it has ended
                process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("way", ["poll", "iterate"])
def test_ctrl_c_while_reading_loses_no_record(cluster: EmbeddedCluster, way: str) -> None:
    """Hundreds of interruptions anywhere; what poll was not able to return comes again."""
    read = (
        "for record in consumer.poll(0.01, 7): take(record)"
        if way == "poll"
        else "for record in consumer: take(record)"
    )
    code, out, err = run(
        cluster,
        f"""
        seen, interruptions = [], 0
        def take(record):
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            seen.append(record.offset)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])
        class Interrupted(BaseException):
            pass
        def interrupt(_, frame):
            if "/kprod/" in frame.f_code.co_filename:  # else it would be the application's to mend
                raise Interrupted
        signal.signal(signal.SIGALRM, interrupt)
        while len(seen) < {COUNT} and interruptions < 100_000:
            try:
                first_s = 0.0005 + interruptions % 7 * 0.0003
                signal.setitimer(signal.ITIMER_REAL, first_s, 0.002)
                {read}
            except Interrupted:
                interruptions += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        missing = sorted(set(range({COUNT})) - set(seen))
        say(seen == sorted(seen), missing, interruptions > 10)
        """,
    )
    assert (code, err) == (0, "")
    assert out.startswith("True []"), out


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("way", ["poll", "poll_arrow"])
def test_a_signal_while_many_records_are_decoded_loses_none(way: str) -> None:
    """Its handler runs before they count as returned, not after the compiled code's return."""
    read = (
        "[record.offset for record in consumer.poll(0, 5_000)]"
        if way == "poll"
        else "consumer.poll_arrow(0, 5_000).column('offset').to_pylist()"
    )
    with EmbeddedCluster(brokers=1, topics={"t": 1}) as cluster:
        fill(cluster, "t", MANY)
        code, out, err = run(
            cluster,
            f"""
            import time
            class Interrupted(BaseException):
                pass
            def interrupt(_, frame):
                if "/kprod/" in frame.f_code.co_filename:
                    raise Interrupted
            signal.signal(signal.SIGALRM, interrupt)
            seen, number, interruptions = [], 0, 0
            while len(seen) < {MANY} and number < 1_000:
                number += 1
                time.sleep(0.02)  # for records to arrive, so that poll only decodes
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0.0001 * (1 + number % 50))
                    found = {read}
                except Interrupted:
                    interruptions += 1
                else:
                    seen += found
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
            say(seen == list(range({MANY})), interruptions > 0)
            """,
        )
    assert (code, out, err) == (0, "True True\n", "")


def test_a_fork_while_records_are_read(cluster: EmbeddedCluster) -> None:
    """By another thread, and by the one that forks: the child's copy raises as a forked one."""
    code, out, err = run(
        cluster,
        """
        warnings.simplefilter("ignore", DeprecationWarning)
        def rejection():
            child = os.fork()
            if not child:
                try:
                    consumer.poll(0)
                except kprod.errors.ConsumerForked:
                    os._exit(7)
                finally:
                    os._exit(8)
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        while consumer.position(T0) < 2_000:
            consumer.poll(10)
        reader = threading.Thread(target=consumer.poll, args=(3,))
        reader.start()
        while True:
            try:
                consumer.poll(0)
            except kprod.errors.ConcurrentPoll:
                break
        beside = rejection()
        consumer.wakeup()
        reader.join()
        consumer.close()

        within = []
        def deserializer(value):
            if not within:
                within.append(rejection())
            return value
        consumer = kprod.Consumer(
            bootstrap_servers=SERVERS, auto_offset_reset="earliest", value_deserializer=deserializer
        )
        consumer.assign([T0])
        say(beside, len(consumer.poll(10, 5)), within)
        consumer.close()
        """,
    )
    assert (code, out) == (0, "7 5 [7]\n"), err


def test_a_fork_by_an_interceptor(cluster: EmbeddedCluster) -> None:
    """In the middle of a poll: the child's copy raises; the parent's poll returns its records."""
    code, out, err = run(
        cluster,
        """
        warnings.simplefilter("ignore", DeprecationWarning)
        codes = []
        class Forks:
            def close(self):
                pass
            def on_consume(self, records):
                child = os.fork()
                if not child:
                    try:
                        consumer.poll(0)
                    except kprod.errors.ConsumerForked:
                        os._exit(7)
                    finally:
                        os._exit(8)
                codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                return records
        consumer.close()
        consumer = kprod.Consumer(
            bootstrap_servers=SERVERS, auto_offset_reset="earliest", interceptors=[Forks()]
        )
        consumer.assign([T0])
        first = consumer.poll(10, 5)
        rest = []
        while len(rest) < 1_995:
            rest += consumer.poll(10)
        offsets = [record.offset for record in (*first, *rest)]
        say(set(codes), offsets == list(range(2_000)))
        consumer.close()
        """,
    )
    assert (code, out) == (0, "{7} True\n"), err


def test_a_child_that_leaves_the_middle_of_a_poll_by_itself(cluster: EmbeddedCluster) -> None:
    """It returns from the deserializer that forked it: its poll raises, the parent's continues."""
    code, out, err = run(
        cluster,
        """
        warnings.simplefilter("ignore", DeprecationWarning)
        children = []
        def deserializer(value):
            if not children:
                children.append(os.fork())
            return value
        consumer.close()
        consumer = kprod.Consumer(
            bootstrap_servers=SERVERS, auto_offset_reset="earliest", value_deserializer=deserializer
        )
        consumer.assign([T0])
        try:
            count = len(consumer.poll(10, 5))
            if not children[0]:
                consumer.poll(0)
        except kprod.errors.ConsumerForked:
            os._exit(7 if not children[0] else 9)
        if not children[0]:
            os._exit(8)
        child = os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1])
        say(count, child, len(consumer.poll(10, 5)))
        consumer.close()
        """,
    )
    assert (code, out) == (0, "5 7 5\n"), err


def test_a_fork(cluster: EmbeddedCluster) -> None:
    """The child's copy raises, and has no descriptor of the parent's; the parent reads on."""
    code, out, err = run(
        cluster,
        """
        first = len(consumer.poll(10, 5))
        sockets = [fd for fd in os.listdir("/proc/self/fd")
                   if os.path.exists(f"/proc/self/fd/{fd}")
                   and os.readlink(f"/proc/self/fd/{fd}").startswith("socket")]
        warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forks beside threads
        child = os.fork()
        if not child:
            errors = []
            for call in (consumer.poll, lambda: consumer.seek(T0, 0), lambda: next(iter(consumer))):
                try:
                    call()
                except kprod.errors.ConsumerForked as error:
                    errors.append("child" in str(error))
            left = [fd for fd in sockets if os.path.exists(f"/proc/self/fd/{fd}")]
            say(errors, left, bool(sockets))
            consumer.close()
            sys.exit(0)
        os.waitpid(child, 0)
        rest = 0
        while rest < 1_995:
            rest += len(consumer.poll(10))
        say(first, rest, consumer.position(T0))
        consumer.close()
        """,
    )
    assert (code, err) == (0, "")
    assert out == "[True, True, True] [] True\n5 1995 2000\n"


def test_sigkill_leaves_the_broker_well(cluster: EmbeddedCluster) -> None:
    """Another consumer reads everything."""
    with start(cluster, "say(len(consumer.poll(10, 5)))\nconsumer.poll()\nconsumer.poll()") as it:
        assert it.stdout is not None
        assert it.stdout.readline() == "5\n"
        os.kill(it.pid, signal.SIGKILL)
        it.communicate(timeout=TIMEOUT_S)
    with consumer_of(cluster, "t") as consumer:
        assert len(poll_count(consumer, COUNT)) == COUNT
