"""A producer whose `__init__` never ran, failed or ran twice raises with the reason."""

import gc
import weakref

import pytest

import kprod
from kprod.aio import AsyncProducer
from tests.producer.stage import Stage
from tests.safety.child import run_in_child


def test_a_subclass_that_forgets_super_init_is_told_so() -> None:
    """Every call of it says what is missing, and none ends the process."""
    told = run_in_child(
        """
        import kprod
        import pyarrow as pa

        class Forgetful(kprod.Producer):
            def __init__(self):
                pass

        calls = {
            "send": lambda it: it.send("orders", b"x"),
            "send_many": lambda it: it.send_many("orders", [b"x"]),
            "send_arrow": lambda it: it.send_arrow("orders", pa.table({"value": [b"x"]})),
            "flush": lambda it: it.flush(),
            "purge": lambda it: it.purge(),
            "metrics": lambda it: it.metrics(),
            "close": lambda it: it.close(),
            "with": lambda it: it.__enter__(),
        }
        for make in (Forgetful, lambda: kprod.Producer.__new__(kprod.Producer)):
            for name, call in calls.items():
                try:
                    call(make())
                except RuntimeError as error:
                    assert "Producer.__init__ was not called" in str(error), error
                    assert "super().__init__" in str(error), error
                    print(name)
        """
    )
    names = ["send", "send_many", "send_arrow", "flush", "purge", "metrics", "close", "with"]
    assert told == names * 2


def test_a_future_of_no_record_says_so() -> None:
    """`RecordFuture.__new__` makes one, and all that it is asked is rejected."""
    told = run_in_child(
        """
        import asyncio
        import kprod

        async def awaited(it):
            return await it

        calls = [
            lambda it: it.done(),
            lambda it: it.result(0),
            lambda it: it.result(),
            lambda it: it.exception(0),
            lambda it: it.add_done_callback(print),
            lambda it: it.to_concurrent().result(0),
            lambda it: asyncio.run(awaited(it)),
        ]
        for call in calls:
            try:
                call(kprod.RecordFuture.__new__(kprod.RecordFuture))
            except TypeError as error:
                assert "Producer.send" in str(error), error
                print("rejected")
        """
    )
    assert told == ["rejected"] * 7


def test_an_async_subclass_that_forgets_super_init_is_told_so() -> None:
    """As the other producer; its methods are coroutines."""
    told = run_in_child(
        """
        import asyncio
        from kprod.aio import AsyncProducer

        class Forgetful(AsyncProducer):
            def __init__(self):
                pass

        async def main():
            for name in ("start", "flush", "purge", "close"):
                try:
                    await getattr(Forgetful(), name)()
                except RuntimeError as error:
                    assert "AsyncProducer.__init__ was not called" in str(error), error
                    print(name)
            try:
                await Forgetful().send("orders", b"x")
            except Exception as error:
                print("send")

        asyncio.run(main())
        """
    )
    assert told == ["start", "flush", "purge", "close", "send"]


def test_an_async_consumer_s_subclass_that_forgets_super_init_is_told_so() -> None:
    """Its methods are coroutines, too."""
    told = run_in_child(
        """
        import asyncio
        from kprod.aio import AsyncConsumer

        class Forgetful(AsyncConsumer):
            def __init__(self):
                pass

        async def main():
            for name in ("start", "poll", "close"):
                try:
                    await getattr(Forgetful(), name)()
                except RuntimeError as error:
                    assert "must call AsyncConsumer.__init__" in str(error), error
                    print(name)

        asyncio.run(main())
        """
    )
    assert told == ["start", "poll", "close"]


def test_init_is_called_once() -> None:
    """A second call would leave the first engine's thread and connections to nobody."""
    stage = Stage({"orders": [1]})
    with pytest.raises(RuntimeError, match="called twice"):
        stage.producer.__init__(bootstrap_servers="127.0.0.1:1")  # type: ignore[misc]
    future = stage.send(b"still the same engine")
    stage.take().answer(base_offset=5)
    stage.run()
    assert future.result(0).offset == 5
    again = AsyncProducer(engine=stage.producer)
    with pytest.raises(RuntimeError, match="called twice"):
        again.__init__(engine=stage.producer)  # type: ignore[misc]


def test_init_may_be_tried_again_after_it_failed() -> None:
    """A producer that a wrong setting kept from its beginning raises, until a right one comes."""
    told = run_in_child(
        """
        import kprod
        from kprod.errors import ConfigError, MetadataTimeout

        made = kprod.Producer.__new__(kprod.Producer)
        for step in (
            lambda: made.__init__(no_such_setting=1),
            lambda: made.send("orders", b"x"),
            lambda: made.__init__(bootstrap_servers="127.0.0.1:1", max_block_ms=0),
            lambda: made.send("orders", b"x"),
        ):
            try:
                step()
                print("done")
            except (ConfigError, RuntimeError, MetadataTimeout) as error:
                print(type(error).__name__)
        print(made.close(0))
        """
    )
    assert told == ["ConfigError", "RuntimeError", "done", "MetadataTimeout", "0"]


def test_a_producer_may_be_weakly_referenced_and_is_collected() -> None:
    """One that was never initialised is freed like any object."""
    made = kprod.Producer.__new__(kprod.Producer)
    found = weakref.ref(made)
    del made
    gc.collect()
    assert found() is None


def test_wrong_positions_of_a_topic_end_in_an_error() -> None:
    """Any code may change the attributes that name a partition; they are checked before use."""
    told = run_in_child(
        """
        import pyarrow as pa
        from tests.producer.stage import Stage

        stage = Stage({"orders": [1]})
        stage.send(b"x")
        head = stage.producer._kprod.path.topics["orders"]
        for attribute, value in (("sticky", 1 << 40), ("sticky", -5), ("partition_count", 1 << 20)):
            before = getattr(head, attribute)
            setattr(head, attribute, value)
            for sent in ({}, {"key": b"k"}, {"partition": 7}):
                try:
                    stage.producer.send("orders", b"x", **sent)
                    stage.producer.send_many("orders", [b"x", b"y"])
                    stage.producer.send_arrow("orders", pa.table({"value": [b"x"] * 3}))
                except Exception as error:
                    print(type(error).__name__)
            setattr(head, attribute, before)
        print("still here")
        """
    )
    assert told[-1] == "still here"
    assert "IndexError" in told
