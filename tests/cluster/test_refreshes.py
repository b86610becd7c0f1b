"""Requests of other threads for a response about a topic: when each ends, and that none is lost."""

from kprod.cluster.refreshes import Refreshes


def test_a_request_ends_by_the_answer_to_a_question_that_was_asked_after_it() -> None:
    """One that is posted while the question is out waits for the next."""
    refreshes = Refreshes()
    early = refreshes.post("orders")
    assert refreshes.take() == ["orders"]
    served = refreshes.serve()
    late = refreshes.post("orders")
    refreshes.finish(served)

    assert refreshes.is_done("orders", early)
    assert not refreshes.is_done("orders", late)
    assert refreshes.take() == ["orders"]
    refreshes.finish(refreshes.serve())
    assert refreshes.is_done("orders", late)


def test_a_request_is_of_one_topic() -> None:
    """A higher number of another topic says nothing about it."""
    refreshes = Refreshes()
    number = refreshes.post("orders")
    refreshes.take()
    served = refreshes.serve()
    refreshes.post("clicks")
    refreshes.take()
    refreshes.finish(refreshes.serve())

    assert not refreshes.is_done("orders", number)
    refreshes.finish(served)
    assert refreshes.is_done("orders", number)


def test_a_failed_question_leaves_its_requests_to_the_next() -> None:
    """Together with those that were posted meanwhile."""
    refreshes = Refreshes()
    early = refreshes.post("orders")
    refreshes.take()
    served = refreshes.serve()
    late = refreshes.post("clicks")
    refreshes.take()
    refreshes.put_back(served)
    assert not refreshes.is_done("orders", early)

    refreshes.finish(refreshes.serve())
    assert refreshes.is_done("orders", early)
    assert refreshes.is_done("clicks", late)


def test_threads_may_post_in_another_order_than_they_drew_numbers() -> None:
    """The one that is posted last ends nobody's request a second time, and undoes none."""
    refreshes = Refreshes()
    numbers = [refreshes.post("orders") for _ in range(2)]
    refreshes.posted.reverse()
    refreshes.take()
    refreshes.finish(refreshes.serve())
    assert all(refreshes.is_done("orders", number) for number in numbers)

    refreshes.posted.append(("orders", numbers[0]))  # as if it had been slow
    refreshes.take()
    refreshes.finish(refreshes.serve())
    assert all(refreshes.is_done("orders", number) for number in numbers)


def test_memory_grows_with_topics_only() -> None:
    """Also while no question is answered."""
    refreshes = Refreshes()
    for _ in range(1_000):
        refreshes.post("orders")
        refreshes.take()
        refreshes.put_back(refreshes.serve())

    assert (len(refreshes.posted), len(refreshes.unserved)) == (0, 1)
