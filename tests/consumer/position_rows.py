"""The rules of a partition's position and of a consumer's end, and the tests of each.

A value is files of this directory, each with a test in it.
"""

from collections.abc import Mapping

_ONE_END = "test_offset_lookups:test_a_reset_asks_for_its_end_of_the_log"
_WHOLE = "test_scripted:test_a_log_that_is_whole_after_an_election_goes_on"
_CUT = "test_scripted:test_a_log_that_was_cut_is_read_again_from_there"

POSITIONS: Mapping[str, tuple[str, ...]] = {
    "INITIAL, without a group: to RESETTING": (_ONE_END,),
    "INITIAL, a seek: to FETCHING": (
        "test_offset_lookups:test_a_position_that_is_set_asks_nothing",
    ),
    "INITIAL, a seek with an epoch: to VALIDATING": (
        "test_offset_lookups:test_a_seek_with_an_epoch_is_validated",
    ),
    "RESETTING, earliest or latest: ListOffsets": (_ONE_END,),
    "RESETTING, with the isolation level": (
        "test_offset_lookups:test_a_query_has_the_isolation_level",
    ),
    "RESETTING, by a time; no record of that time: latest": (
        "test_consumer:test_by_duration_begins_at_a_time",
    ),
    "RESETTING, none: NoOffset names all such partitions": (
        "test_consumer:test_the_policy_none_names_every_partition",
    ),
    "RESETTING, ends if the generation is unchanged": (
        "test_offset_lookups:test_a_seek_during_a_reset",
        "test_offset_lookups:test_an_assignment_that_changes_during_a_reset",
        "test_kafka_cases:test_change_reset_with_in_flight_reset",
    ),
    "VALIDATING, after a change of the leader's epoch": (_WHOLE,),
    "VALIDATING, the end is at or behind the position: FETCHING": (_WHOLE,),
    "VALIDATING, the end is before it: there, one line, counted": (
        _CUT,
        "test_content_kafka:test_a_truncation_after_an_unclean_election",
    ),
    "VALIDATING, the end is before it, policy none: LogTruncated": (
        "test_scripted:test_a_log_that_was_cut_is_an_error_without_a_policy",
        "test_content_kafka:test_a_truncation_after_an_unclean_election",
    ),
    "VALIDATING, the leader does not know the epoch": (
        "test_offset_lookups:test_an_epoch_that_the_leader_does_not_know",
    ),
    "VALIDATING, a broker that is too old: FETCHING": (
        "test_offset_lookups:test_a_broker_too_old_to_validate",
    ),
    "FETCHING, with the leader's epoch and the last record's": (
        "test_offset_lookups:test_a_fetch_and_a_query_have_the_leader_s_epoch",
        "test_offset_lookups:test_a_reset_keeps_the_epoch_of_its_answer",
    ),
    "FETCHING, above the end: RESETTING, one line": (
        "test_consumer:test_an_offset_beyond_the_log_is_reset",
    ),
    "FETCHING, below the start: RESETTING": (
        "test_whole_topic:test_a_log_that_loses_its_beginning",
    ),
    "FETCHING, out of range at a follower: the leader is asked": (
        "test_racks:test_the_leader_is_asked_when_a_follower_fails",
    ),
    "FETCHING, a diverging epoch: as VALIDATING": (
        "test_scripted:test_a_diverging_epoch_of_a_fetch_counts_as_a_cut",
    ),
    "FETCHING, fenced or unknown epoch, not the leader: metadata": (
        "test_scripted:test_any_code_of_a_fetch_is_survived",
        "test_scripted:test_a_new_leader_is_followed",
    ),
    "paused: fetched records are kept": (
        "test_consumer:test_a_pause_keeps_what_was_fetched",
        "test_fetches:test_a_partition_that_is_paused_while_its_fetch_is_out",
    ),
    "a partition that is added to a topic starts at its beginning": (
        "test_consumer:test_a_topic_grows",
    ),
}

ENDS: Mapping[str, tuple[str, ...]] = {
    "SIGKILL": ("test_ends:test_sigkill_leaves_the_broker_well",),
    "an exception leaves the loop": ("test_ends:test_an_exception_leaves_the_loop",),
    "close": ("test_ends:test_a_thread_that_still_polls_at_exit",),
    "the interpreter exits with it open": (
        "test_ends:test_an_exit_without_close",
        "test_ends:test_an_exit_while_the_broker_is_silent",
    ),
    "KeyboardInterrupt in poll": (
        "test_ends:test_ctrl_c_while_waiting",
        "test_ends:test_ctrl_c_while_reading_loses_no_record",
        "test_interruptions:test_reading",
    ),
    "fork": (
        "test_ends:test_a_fork",
        "test_ends:test_a_fork_while_records_are_read",
        "test_ends:test_a_fork_by_an_interceptor",
    ),
}

MANY_PARTITIONS: Mapping[str, tuple[str, ...]] = {
    "order, with one paused partition of 1,000": (
        "test_many_partitions:test_one_paused_partition_of_1_000",
    ),
    "the memory's bound, with one paused partition of 1,000": (
        "test_many_partitions:test_one_paused_partition_of_1_000",
    ),
    "a stalled application of 1,000 partitions": (
        "test_many_partitions:test_one_paused_partition_of_1_000",
    ),
    "going back to an old offset": ("test_kafka_cases:test_going_back_to_an_old_offset",),
    "jumping to the newest": ("test_kafka_cases:test_jumping_to_the_newest",),
}
