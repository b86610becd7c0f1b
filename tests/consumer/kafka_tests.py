"""Kafka's own tests of fetching and of offsets, and the tests here of the same rules.

Names are those of Kafka's trunk of October 2024. A value is a file of this directory and a test in
it, or one of the reasons below.
"""

from collections.abc import Mapping

GROUPS = "of groups; their tests are in tests/consumer/group"
JAVA = "of a class or a function that only Java's client has"
NETWORK = "of the network client, which has tests of its own in tests/network"
METRIC = "of a sensor of Java's; the metrics here are counters, each on the page of metrics"
REASONS = frozenset({GROUPS, JAVA, NETWORK, METRIC})

FETCH_SESSION_HANDLER: Mapping[str, str] = {
    "testFindMissing": JAVA,
    "testSessionless": "test_fetch_session:test_sessionless",
    "testIncrementals": "test_fetch_session:test_incrementals",
    "testDoubleBuild": JAVA,
    "testIncrementalPartitionRemoval": "test_fetch_session:test_incremental_partition_removal",
    "testTopicIdUsageGrantedOnIdUpgrade": (
        "test_fetch_session:test_a_session_whose_ids_come_or_go_goes_by_names_first"
    ),
    "testIdUsageRevokedOnIdDowngrade": (
        "test_fetch_session:test_a_session_whose_ids_come_or_go_goes_by_names_first"
    ),
    "testTopicIdReplaced": (
        "test_fetch_session:test_a_topic_that_was_made_again_is_forgotten_by_its_old_id"
    ),
    "testSessionEpochWhenMixedUsageOfTopicIDs": (
        "test_fetch_session:test_ids_are_used_when_all_are_known"
    ),
    "testIdUsageWithAllForgottenPartitions": (
        "test_fetch_session:test_a_session_of_which_everything_is_forgotten_goes_on_as_it_began"
    ),
    "testOkToAddNewIdAfterTopicRemovedFromSession": (
        "test_fetch_session:test_a_topic_that_was_removed_may_return_with_another_id"
    ),
    "testVerifyFullFetchResponsePartitions": (
        "test_scripted:test_answers_for_others_change_nothing"
    ),
    "testVerifyFullFetchResponsePartitionsWithTopicIds": (
        "test_scripted:test_answers_for_others_change_nothing"
    ),
    "testTopLevelErrorResetsMetadata": (
        "test_fetches:test_an_error_of_the_whole_response_begins_the_session_again"
    ),
}

_CODES = "test_scripted:test_any_code_of_a_fetch_is_survived"
_POLL_MAX = "test_consumer:test_poll_returns_at_most_what_was_asked_for"
_PAUSE_KEEPS = "test_consumer:test_a_pause_keeps_what_was_fetched"
_SPOILED = "test_bad_input:test_spoiled_records"
_SOME_PAUSED = "test_kafka_cases:test_fetch_on_completed_fetches_for_some_paused_partitions"
_PEER = "test_consumer_kafka:test_transactions_of_a_peer"
_INTERLEAVED = "test_content_kafka:test_interleaved_transactions_of_a_peer"
_UNASSIGNED = "test_fetches:test_a_partition_with_fetched_records_that_is_unassigned"
_FOLLOWER_FAILS = "test_racks:test_the_leader_is_asked_when_a_follower_fails"

FETCHER: Mapping[str, str] = {
    "testFetchNormal": "test_scripted:test_all_partitions_are_read_in_order",
    "testInflightFetchOnPendingPartitions": GROUPS,
    "testCloseShouldBeIdempotent": "test_fetches:test_close_twice_closes_the_session_once",
    "testFetcherCloseClosesFetchSessionsInBroker": (
        "test_fetches:test_close_twice_closes_the_session_once"
    ),
    "testFetchingPendingPartitions": GROUPS,
    "testFetchWithNoTopicId": "test_fetch_session:test_ids_are_used_when_all_are_known",
    "testFetchWithTopicId": "test_fetch_session:test_ids_are_used_when_all_are_known",
    "testFetchForgetTopicIdWhenUnassigned": (
        "test_fetch_session:test_incremental_partition_removal"
    ),
    "testFetchForgetTopicIdWhenReplaced": (
        "test_fetch_session:test_a_topic_that_was_made_again_is_forgotten_by_its_old_id"
    ),
    "testFetchTopicIdUpgradeDowngrade": (
        "test_fetch_session:test_a_session_whose_ids_come_or_go_goes_by_names_first"
    ),
    "testMissingLeaderEpochInRecords": "test_fetches:test_the_epoch_of_a_record_is_its_batch_s",
    "testLeaderEpochInConsumerRecord": "test_fetches:test_the_epoch_of_a_record_is_its_batch_s",
    "testClearBufferedDataForTopicPartitions": _UNASSIGNED,
    "testFetchSkipsBlackedOutNodes": NETWORK,
    "testFetcherIgnoresControlRecords": "test_scripted:test_gaps_and_markers_are_passed_over",
    "testFetchError": _CODES,
    "testFetchedRecordsRaisesOnSerializationErrors": (
        "test_deserializers:test_a_deserializer_that_fails_loses_no_record"
    ),
    "testParseCorruptedRecord": ("test_scripted:test_corrupt_records_are_an_error_with_the_place"),
    "testInvalidDefaultRecordBatch": _SPOILED,
    "testParseInvalidRecordBatch": _SPOILED,
    "testHeaders": "test_consumer:test_records_are_whole",
    "testFetchMaxPollRecords": _POLL_MAX,
    "testFetchMaxPollRecordsUnaligned": _POLL_MAX,
    "testFetchAfterPartitionWithFetchedRecordsIsUnassigned": _UNASSIGNED,
    "testFetchNonContinuousRecords": "test_scripted:test_gaps_and_markers_are_passed_over",
    "testFetchRequestWhenRecordTooLarge": (
        "test_bad_input:test_a_record_larger_than_the_whole_memory_is_read"
    ),
    "testFetchRequestInternalError": "test_scripted:test_a_part_of_a_batch_alone_is_an_error",
    "testUnauthorizedTopic": "test_scripted:test_a_rejection_that_time_cannot_mend",
    "testFetchDuringEagerRebalance": GROUPS,
    "testFetchDuringCooperativeRebalance": GROUPS,
    "testInFlightFetchOnPausedPartition": (
        "test_fetches:test_a_partition_that_is_paused_while_its_fetch_is_out"
    ),
    "testFetchOnPausedPartition": "test_fetches:test_a_paused_partition_is_not_fetched",
    "testFetchOnCompletedFetchesForPausedAndResumedPartitions": _PAUSE_KEEPS,
    "testFetchOnCompletedFetchesForSomePausedPartitions": _SOME_PAUSED,
    "testFetchOnCompletedFetchesForAllPausedPartitions": _PAUSE_KEEPS,
    "testPartialFetchWithPausedPartitions": _SOME_PAUSED,
    "testFetchDiscardedAfterPausedPartitionResumedAndSoughtToNewOffset": (
        "test_kafka_cases:"
        "test_fetch_discarded_after_paused_partition_resumed_and_sought_to_new_offset"
    ),
    "testHandleFetchResponseError": _CODES,
    "testEpochSetInFetchRequest": (
        "test_offset_lookups:test_a_fetch_and_a_query_have_the_leader_s_epoch"
    ),
    "testFetchOffsetOutOfRange": "test_consumer:test_an_offset_beyond_the_log_is_reset",
    "testStaleOutOfRangeError": (
        "test_scripted:test_resets_that_are_overtaken_do_not_slow_the_fetching"
    ),
    "testFetchedRecordsAfterSeek": "test_scripted:test_an_old_answer_is_dropped_after_a_seek",
    "testFetchOffsetOutOfRangeException": (
        "test_consumer:test_an_offset_beyond_the_log_is_an_error_without_a_policy"
    ),
    "testFetchPositionAfterException": (
        "test_scripted:test_a_corrupt_partition_does_not_keep_another_back"
    ),
    "testCompletedFetchRemoval": (
        "test_scripted:test_a_corrupt_partition_does_not_keep_another_back"
    ),
    "testSeekBeforeException": "test_scripted:test_corrupt_records_are_an_error_with_the_place",
    "testFetchDisconnected": "test_scripted:test_a_lost_request_is_made_again",
    "testQuotaMetrics": NETWORK,
    "testFetcherMetrics": "test_consumer:test_metrics_are_those_of_their_page",
    "testFetcherLeadMetric": METRIC,
    "testReadCommittedLagMetric": _PEER,
    "testFetchResponseMetrics": METRIC,
    "testFetchResponseMetricsWithSkippedOffset": METRIC,
    "testFetchResponseMetricsWithOnePartitionError": METRIC,
    "testFetchResponseMetricsWithOnePartitionAtTheWrongOffset": METRIC,
    "testFetcherMetricsTemplates": "test_consumer:test_metrics_are_those_of_their_page",
    "testSkippingAbortedTransactions": _PEER,
    "testReturnCommittedTransactions": _PEER,
    "testReadCommittedWithCommittedAndAbortedTransactions": _INTERLEAVED,
    "testMultipleAbortMarkers": "test_kafka_cases:test_multiple_abort_markers",
    "testReadCommittedAbortMarkerWithNoData": ("test_fetches:test_an_abort_marker_without_records"),
    "testUpdatePositionWithLastRecordMissingFromBatch": (
        "test_kafka_cases:test_update_position_with_last_record_missing_from_batch"
    ),
    "testUpdatePositionOnEmptyBatch": (
        "test_fetches:test_a_batch_without_records_takes_its_offsets"
    ),
    "testReadCommittedWithCompactedTopic": (
        "test_kafka_cases:test_read_committed_with_compacted_topic"
    ),
    "testReturnAbortedTransactionsInUncommittedMode": (
        "test_fetches:test_aborted_records_are_read_uncommitted"
    ),
    "testConsumerPositionUpdatedWhenSkippingAbortedTransactions": (
        "test_kafka_cases:test_multiple_abort_markers"
    ),
    "testConsumingViaIncrementalFetchRequests": "test_fetch_session:test_incrementals",
    "testFetcherConcurrency": "test_consumer:test_a_second_thread_is_rejected",
    "testFetcherSessionEpochUpdate": "test_fetch_session:test_the_epoch_wraps_to_one",
    "testEmptyControlBatch": "test_kafka_cases:test_empty_control_batch",
    "testSubscriptionPositionUpdatedWithEpoch": (
        "test_scripted:test_a_log_that_is_whole_after_an_election_goes_on"
    ),
    "testTruncationDetected": "test_scripted:test_a_log_that_was_cut_is_read_again_from_there",
    "testPreferredReadReplica": ("test_racks:test_the_replica_that_the_leader_names_is_read"),
    "testFetchDisconnectedShouldClearPreferredReadReplica": (
        "test_racks:test_the_leader_is_asked_when_a_follower_is_lost"
    ),
    "testFetchDisconnectedShouldNotClearPreferredReadReplicaIfUnassigned": JAVA,
    "testFetchErrorShouldClearPreferredReadReplica": _FOLLOWER_FAILS,
    "testPreferredReadReplicaOffsetError": _FOLLOWER_FAILS,
    "testFetchCompletedBeforeHandlerAdded": JAVA,
    "testCorruptMessageError": _CODES,
    "testWhenFetchResponseReturnsALeaderShipChangeErrorButNoNewLeaderInformation": (
        "test_scripted:test_a_new_leader_is_followed"
    ),
    "testWhenFetchResponseReturnsALeaderShipChangeErrorAndNewLeaderInformation": (
        "test_fetches:test_a_rejection_that_names_the_new_leader"
    ),
    "testFetcherDontCacheAnyData": JAVA,
}

_QUERY_CODES = "test_offset_lookups:test_a_retriable_code_of_a_query_is_survived"
_ONE_LOST = "test_offset_lookups:test_a_query_that_one_of_two_leaders_loses_is_made_again"
_ONE_END = "test_offset_lookups:test_a_reset_asks_for_its_end_of_the_log"
_PAUSED_PLACE = "test_offset_lookups:test_a_paused_partition_gets_a_position_and_is_not_fetched"
_UNKNOWN_EPOCH = "test_offset_lookups:test_an_epoch_that_the_leader_does_not_know"
_ENDS = "test_offset_lookups:test_log_ends_of_several_of_one_twice_and_of_none"
_NO_ANSWER = "test_offset_lookups:test_a_query_without_an_answer_times_out"
_TOO_OLD = "test_offset_lookups:test_a_broker_too_old_to_validate"

OFFSET_FETCHER: Mapping[str, str] = {
    "testUpdateFetchPositionNoOpWithPositionSet": (
        "test_offset_lookups:test_a_position_that_is_set_asks_nothing"
    ),
    "testUpdateFetchPositionResetToDefaultOffset": _ONE_END,
    "testUpdateFetchPositionResetToLatestOffset": _ONE_END,
    "testFetchOffsetErrors": _QUERY_CODES,
    "testListOffsetSendsReadUncommitted": (
        "test_offset_lookups:test_a_query_has_the_isolation_level"
    ),
    "testListOffsetSendsReadCommitted": (
        "test_offset_lookups:test_a_query_has_the_isolation_level"
    ),
    "testresetPositionsSkipsBlackedOutConnections": NETWORK,
    "testUpdateFetchPositionResetToEarliestOffset": _ONE_END,
    "testresetPositionsMetadataRefresh": _QUERY_CODES,
    "testListOffsetNoUpdateMissingEpoch": (
        "test_offset_lookups:test_a_reset_keeps_the_epoch_of_its_answer"
    ),
    "testListOffsetUpdateEpoch": ("test_offset_lookups:test_a_reset_keeps_the_epoch_of_its_answer"),
    "testUpdateFetchPositionDisconnect": "test_scripted:test_a_lost_request_is_made_again",
    "testAssignmentChangeWithInFlightReset": (
        "test_offset_lookups:test_an_assignment_that_changes_during_a_reset"
    ),
    "testSeekWithInFlightReset": "test_offset_lookups:test_a_seek_during_a_reset",
    "testEarlierOffsetResetArrivesLate": (
        "test_kafka_cases:test_change_reset_with_in_flight_reset"
    ),
    "testChangeResetWithInFlightReset": ("test_kafka_cases:test_change_reset_with_in_flight_reset"),
    "testIdempotentResetWithInFlightReset": (
        "test_kafka_cases:test_idempotent_reset_with_in_flight_reset"
    ),
    "testResetOffsetsAuthorizationFailure": (
        "test_scripted:test_a_rejection_that_time_cannot_mend"
    ),
    "testFetchingPendingPartitionsBeforeAndAfterSubscriptionReset": GROUPS,
    "testUpdateFetchPositionOfPausedPartitionsRequiringOffsetReset": _PAUSED_PLACE,
    "testUpdateFetchPositionOfPausedPartitionsWithoutAValidPosition": _PAUSED_PLACE,
    "testUpdateFetchPositionOfPausedPartitionsWithAValidPosition": _PAUSED_PLACE,
    "testGetOffsetsForTimesTimeout": _NO_ANSWER,
    "testGetOffsetsForTimes": "test_consumer:test_offsets_of_times",
    "testGetOffsetsFencedLeaderEpoch": _QUERY_CODES,
    "testGetOffsetByTimeWithPartitionsRetryCouldTriggerMetadataUpdate": _QUERY_CODES,
    "testGetOffsetsUnknownLeaderEpoch": _QUERY_CODES,
    "testGetOffsetsIncludesLeaderEpoch": "test_consumer:test_offsets_of_times",
    "testGetOffsetsForTimesWhenSomeTopicPartitionLeadersNotKnownInitially": _ENDS,
    "testGetOffsetsForTimesWhenSomeTopicPartitionLeadersDisconnectException": _ONE_LOST,
    "testListOffsetsWithZeroTimeout": _NO_ANSWER,
    "testBatchedListOffsetsMetadataErrors": _QUERY_CODES,
    "testGetOffsetsForTimesWithUnknownOffsetV0": JAVA,
    "testOffsetValidationRequestGrouping": (
        "test_offset_lookups:test_validations_are_grouped_by_leader"
    ),
    "testOffsetValidationAwaitsNodeApiVersion": _TOO_OLD,
    "testOffsetValidationSkippedForOldBroker": _TOO_OLD,
    "testOffsetValidationSkippedForOldResponse": _TOO_OLD,
    "testOffsetValidationresetPositionForUndefinedEpochWithDefinedResetPolicy": _UNKNOWN_EPOCH,
    "testOffsetValidationresetPositionForUndefinedOffsetWithDefinedResetPolicy": _UNKNOWN_EPOCH,
    "testOffsetValidationresetPositionForUndefinedEpochWithUndefinedResetPolicy": _UNKNOWN_EPOCH,
    "testOffsetValidationresetPositionForUndefinedOffsetWithUndefinedResetPolicy": _UNKNOWN_EPOCH,
    "testOffsetValidationTriggerLogTruncationForBadOffsetWithUndefinedResetPolicy": (
        "test_scripted:test_a_log_that_was_cut_is_an_error_without_a_policy"
    ),
    "testOffsetValidationHandlesSeekWithInflightOffsetForLeaderRequest": (
        "test_offset_lookups:test_a_seek_while_a_position_is_validated"
    ),
    "testOffsetValidationFencing": (
        "test_offset_lookups:test_a_validation_that_a_broker_rejects_is_made_again"
    ),
    "testBeginningOffsets": _ENDS,
    "testBeginningOffsetsDuplicateTopicPartition": _ENDS,
    "testBeginningOffsetsMultipleTopicPartitions": _ENDS,
    "testBeginningOffsetsEmpty": _ENDS,
    "testEndOffsets": _ENDS,
    "testEndOffsetsDuplicateTopicPartition": _ENDS,
    "testEndOffsetsMultipleTopicPartitions": _ENDS,
    "testEndOffsetsEmpty": _ENDS,
}
