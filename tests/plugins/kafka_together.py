"""How pytest-xdist hands out tests: one by one, but all that meet Apache Kafka to one worker.

Why not xdist's own groups. They travel in the node ids, which pytest 9.2 no longer lets a plugin
change (pytest-xdist 3.8.0, its issue 1386): groups are then ignored without a word, and each worker
starts a Kafka. The side that hands out knows node ids alone, so the file's name decides.

Source: pytest-xdist 3.8.0, hook `pytest_xdist_make_scheduler`.
"""

from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped] # has no types


class KafkaTogether(LoadScopeScheduling):  # type: ignore[misc] # as above
    """Each test is a scope of its own, except for those in files named after Kafka."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(node_id: str) -> str:
    """Choose what a test is handed out with.

    Args:
        node_id: `path::test`.

    Returns:
        The same for all tests that meet Kafka, and for those of one Spark session.
    """
    file_name = node_id.partition("::")[0].rpartition("/")[2]
    if "kafka" in file_name:
        return "kafka"
    # One Spark session runs all scenes of a file.
    return "spark" if file_name.endswith("test_sink.py") else node_id
