"""Creates the group parts of a consumer and connects them.

Thread-safety: any thread.
"""

import random

from kprod.cluster.backoff import ExponentialBackoff
from kprod.consumer.consumer_engine import ConsumerEngine
from kprod.consumer.group.auto_commit import AutoCommit
from kprod.consumer.group.commits import Commits
from kprod.consumer.group.committed_offsets import CommittedOffsets
from kprod.consumer.group.coordinator_link import CoordinatorLink
from kprod.consumer.group.group_parts import GroupParts
from kprod.consumer.group.group_starts import GroupStarts, StartListener
from kprod.consumer.group.membership import Membership
from kprod.consumer.group.topic_ids import TopicIds


def add_group(engine: ConsumerEngine, rng: random.Random, listener: StartListener) -> None:
    """Add the parts of a consumer with `group_id`.

    Args:
        engine: The consumer's engine.
        rng: Random numbers for jitter.
        listener: Called with the partitions that start at committed offsets.
    """
    parts = engine.parts
    settings = parts.config.group_settings()
    backoff = ExponentialBackoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
    steps = engine.steps
    link = CoordinatorLink(
        parts.client,
        settings.group_id,
        backoff=backoff,
        rng=rng,
        on_problem=steps.fail,
        on_works=steps.works,
        failures=parts.metadata.connection_failures,
    )
    membership = Membership(
        settings,
        link,
        parts.metadata,
        steps,
        backoff_ms=lambda failures: max(1, backoff.wait_ms(failures, rng)),
    )
    topic_ids = TopicIds(parts.metadata)
    commits = Commits(
        settings,
        link,
        membership,
        topic_ids=topic_ids,
        is_owned=lambda key: key in parts.assignment.partitions,
        backoff=backoff,
        rng=rng,
    )
    committed = CommittedOffsets(settings.group_id, link, topic_ids, backoff=backoff, rng=rng)
    parts.group = GroupParts(
        membership,
        commits,
        committed=committed,
        starts=GroupStarts(committed, listener),
        auto_commit=AutoCommit(
            settings,
            commits,
            membership,
            parts.assignment,
            on_committed=engine.committing.note_committed,
        ),
    )
    parts.join_group = steps.join
    parts.match_group = steps.match
    parts.leave_group = steps.unsubscribe
