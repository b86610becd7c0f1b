"""Kafka's error codes, and a class for each.

Generated from kafka-clients 4.3.1 (and 3.9.1 for versions that 4.0 withdrew) and
kafka-group-coordinator 4.3.1 by `tools/generate_protocol.py`; do not edit.
"""

import enum
from typing import Final

from kprod.errors import BrokerError
from kprod.peer_text import peer_text


class ErrorCode(enum.IntEnum):
    """Kafka's error codes by name."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    INVALID_FETCH_SIZE = 4
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    BROKER_NOT_AVAILABLE = 8
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    STALE_CONTROLLER_EPOCH = 11
    OFFSET_METADATA_TOO_LARGE = 12
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_COMMIT_OFFSET_SIZE = 28
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    NOT_CONTROLLER = 41
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTION_COORDINATOR_FENCED = 52
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    SASL_AUTHENTICATION_FAILED = 58
    UNKNOWN_PRODUCER_ID = 59
    REASSIGNMENT_IN_PROGRESS = 60
    DELEGATION_TOKEN_AUTH_DISABLED = 61
    DELEGATION_TOKEN_NOT_FOUND = 62
    DELEGATION_TOKEN_OWNER_MISMATCH = 63
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65
    DELEGATION_TOKEN_EXPIRED = 66
    INVALID_PRINCIPAL_TYPE = 67
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    LISTENER_NOT_FOUND = 72
    TOPIC_DELETION_DISABLED = 73
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    STALE_BROKER_EPOCH = 77
    OFFSET_NOT_AVAILABLE = 78
    MEMBER_ID_REQUIRED = 79
    PREFERRED_LEADER_NOT_AVAILABLE = 80
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    DUPLICATE_RESOURCE = 92
    UNACCEPTABLE_CREDENTIAL = 93
    INCONSISTENT_VOTER_SET = 94
    INVALID_UPDATE_VERSION = 95
    FEATURE_UPDATE_FAILED = 96
    PRINCIPAL_DESERIALIZATION_FAILURE = 97
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    DUPLICATE_BROKER_REGISTRATION = 101
    BROKER_ID_NOT_REGISTERED = 102
    INCONSISTENT_TOPIC_ID = 103
    INCONSISTENT_CLUSTER_ID = 104
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    INELIGIBLE_REPLICA = 107
    NEW_LEADER_ELECTED = 108
    OFFSET_MOVED_TO_TIERED_STORAGE = 109
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    MISMATCHED_ENDPOINT_TYPE = 114
    UNSUPPORTED_ENDPOINT_TYPE = 115
    UNKNOWN_CONTROLLER_ID = 116
    UNKNOWN_SUBSCRIPTION_ID = 117
    TELEMETRY_TOO_LARGE = 118
    INVALID_REGISTRATION = 119
    TRANSACTION_ABORTABLE = 120
    INVALID_RECORD_STATE = 121
    SHARE_SESSION_NOT_FOUND = 122
    INVALID_SHARE_SESSION_EPOCH = 123
    FENCED_STATE_EPOCH = 124
    INVALID_VOTER_KEY = 125
    DUPLICATE_VOTER = 126
    VOTER_NOT_FOUND = 127
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
    STREAMS_INVALID_TOPOLOGY = 130
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131
    STREAMS_TOPOLOGY_FENCED = 132
    SHARE_SESSION_LIMIT_REACHED = 133


class UnknownServerError(BrokerError):
    """Code -1."""

    code = -1
    name = "UNKNOWN_SERVER_ERROR"


class OffsetOutOfRange(BrokerError):
    """Code 1."""

    code = 1
    name = "OFFSET_OUT_OF_RANGE"


class CorruptMessage(BrokerError):
    """Code 2; may succeed later."""

    code = 2
    name = "CORRUPT_MESSAGE"
    retriable = True


class UnknownTopicOrPartition(BrokerError):
    """Code 3; may succeed later; metadata is stale."""

    code = 3
    name = "UNKNOWN_TOPIC_OR_PARTITION"
    retriable = True
    refresh_metadata = True


class InvalidFetchSize(BrokerError):
    """Code 4."""

    code = 4
    name = "INVALID_FETCH_SIZE"


class LeaderNotAvailable(BrokerError):
    """Code 5; may succeed later; metadata is stale."""

    code = 5
    name = "LEADER_NOT_AVAILABLE"
    retriable = True
    refresh_metadata = True


class NotLeaderOrFollower(BrokerError):
    """Code 6; may succeed later; metadata is stale."""

    code = 6
    name = "NOT_LEADER_OR_FOLLOWER"
    retriable = True
    refresh_metadata = True


class RequestTimedOut(BrokerError):
    """Code 7; may succeed later."""

    code = 7
    name = "REQUEST_TIMED_OUT"
    retriable = True


class BrokerNotAvailable(BrokerError):
    """Code 8."""

    code = 8
    name = "BROKER_NOT_AVAILABLE"


class ReplicaNotAvailable(BrokerError):
    """Code 9; may succeed later; metadata is stale."""

    code = 9
    name = "REPLICA_NOT_AVAILABLE"
    retriable = True
    refresh_metadata = True


class MessageTooLarge(BrokerError):
    """Code 10."""

    code = 10
    name = "MESSAGE_TOO_LARGE"


class StaleControllerEpoch(BrokerError):
    """Code 11."""

    code = 11
    name = "STALE_CONTROLLER_EPOCH"


class OffsetMetadataTooLarge(BrokerError):
    """Code 12."""

    code = 12
    name = "OFFSET_METADATA_TOO_LARGE"


class NetworkException(BrokerError):
    """Code 13; may succeed later; metadata is stale."""

    code = 13
    name = "NETWORK_EXCEPTION"
    retriable = True
    refresh_metadata = True


class CoordinatorLoadInProgress(BrokerError):
    """Code 14; may succeed later."""

    code = 14
    name = "COORDINATOR_LOAD_IN_PROGRESS"
    retriable = True


class CoordinatorNotAvailable(BrokerError):
    """Code 15; may succeed later."""

    code = 15
    name = "COORDINATOR_NOT_AVAILABLE"
    retriable = True


class NotCoordinator(BrokerError):
    """Code 16; may succeed later."""

    code = 16
    name = "NOT_COORDINATOR"
    retriable = True


class InvalidTopicException(BrokerError):
    """Code 17."""

    code = 17
    name = "INVALID_TOPIC_EXCEPTION"


class RecordListTooLarge(BrokerError):
    """Code 18."""

    code = 18
    name = "RECORD_LIST_TOO_LARGE"


class NotEnoughReplicas(BrokerError):
    """Code 19; may succeed later."""

    code = 19
    name = "NOT_ENOUGH_REPLICAS"
    retriable = True


class NotEnoughReplicasAfterAppend(BrokerError):
    """Code 20; may succeed later."""

    code = 20
    name = "NOT_ENOUGH_REPLICAS_AFTER_APPEND"
    retriable = True


class InvalidRequiredAcks(BrokerError):
    """Code 21."""

    code = 21
    name = "INVALID_REQUIRED_ACKS"


class IllegalGeneration(BrokerError):
    """Code 22."""

    code = 22
    name = "ILLEGAL_GENERATION"


class InconsistentGroupProtocol(BrokerError):
    """Code 23."""

    code = 23
    name = "INCONSISTENT_GROUP_PROTOCOL"


class InvalidGroupId(BrokerError):
    """Code 24."""

    code = 24
    name = "INVALID_GROUP_ID"


class UnknownMemberId(BrokerError):
    """Code 25."""

    code = 25
    name = "UNKNOWN_MEMBER_ID"


class InvalidSessionTimeout(BrokerError):
    """Code 26."""

    code = 26
    name = "INVALID_SESSION_TIMEOUT"


class RebalanceInProgress(BrokerError):
    """Code 27."""

    code = 27
    name = "REBALANCE_IN_PROGRESS"


class InvalidCommitOffsetSize(BrokerError):
    """Code 28."""

    code = 28
    name = "INVALID_COMMIT_OFFSET_SIZE"


class TopicAuthorizationFailed(BrokerError):
    """Code 29."""

    code = 29
    name = "TOPIC_AUTHORIZATION_FAILED"


class GroupAuthorizationFailed(BrokerError):
    """Code 30."""

    code = 30
    name = "GROUP_AUTHORIZATION_FAILED"


class ClusterAuthorizationFailed(BrokerError):
    """Code 31."""

    code = 31
    name = "CLUSTER_AUTHORIZATION_FAILED"


class InvalidTimestamp(BrokerError):
    """Code 32."""

    code = 32
    name = "INVALID_TIMESTAMP"


class UnsupportedSaslMechanism(BrokerError):
    """Code 33."""

    code = 33
    name = "UNSUPPORTED_SASL_MECHANISM"


class IllegalSaslState(BrokerError):
    """Code 34."""

    code = 34
    name = "ILLEGAL_SASL_STATE"


class UnsupportedVersion(BrokerError):
    """Code 35."""

    code = 35
    name = "UNSUPPORTED_VERSION"


class TopicAlreadyExists(BrokerError):
    """Code 36."""

    code = 36
    name = "TOPIC_ALREADY_EXISTS"


class InvalidPartitions(BrokerError):
    """Code 37."""

    code = 37
    name = "INVALID_PARTITIONS"


class InvalidReplicationFactor(BrokerError):
    """Code 38."""

    code = 38
    name = "INVALID_REPLICATION_FACTOR"


class InvalidReplicaAssignment(BrokerError):
    """Code 39."""

    code = 39
    name = "INVALID_REPLICA_ASSIGNMENT"


class InvalidConfig(BrokerError):
    """Code 40."""

    code = 40
    name = "INVALID_CONFIG"


class NotController(BrokerError):
    """Code 41; may succeed later."""

    code = 41
    name = "NOT_CONTROLLER"
    retriable = True


class InvalidRequest(BrokerError):
    """Code 42."""

    code = 42
    name = "INVALID_REQUEST"


class UnsupportedForMessageFormat(BrokerError):
    """Code 43."""

    code = 43
    name = "UNSUPPORTED_FOR_MESSAGE_FORMAT"


class PolicyViolation(BrokerError):
    """Code 44."""

    code = 44
    name = "POLICY_VIOLATION"


class OutOfOrderSequenceNumber(BrokerError):
    """Code 45."""

    code = 45
    name = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class DuplicateSequenceNumber(BrokerError):
    """Code 46."""

    code = 46
    name = "DUPLICATE_SEQUENCE_NUMBER"


class InvalidProducerEpoch(BrokerError):
    """Code 47."""

    code = 47
    name = "INVALID_PRODUCER_EPOCH"


class InvalidTxnState(BrokerError):
    """Code 48."""

    code = 48
    name = "INVALID_TXN_STATE"


class InvalidProducerIdMapping(BrokerError):
    """Code 49."""

    code = 49
    name = "INVALID_PRODUCER_ID_MAPPING"


class InvalidTransactionTimeout(BrokerError):
    """Code 50."""

    code = 50
    name = "INVALID_TRANSACTION_TIMEOUT"


class ConcurrentTransactions(BrokerError):
    """Code 51; may succeed later."""

    code = 51
    name = "CONCURRENT_TRANSACTIONS"
    retriable = True


class TransactionCoordinatorFenced(BrokerError):
    """Code 52."""

    code = 52
    name = "TRANSACTION_COORDINATOR_FENCED"


class TransactionalIdAuthorizationFailed(BrokerError):
    """Code 53."""

    code = 53
    name = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"


class SecurityDisabled(BrokerError):
    """Code 54."""

    code = 54
    name = "SECURITY_DISABLED"


class OperationNotAttempted(BrokerError):
    """Code 55."""

    code = 55
    name = "OPERATION_NOT_ATTEMPTED"


class KafkaStorageError(BrokerError):
    """Code 56; may succeed later; metadata is stale."""

    code = 56
    name = "KAFKA_STORAGE_ERROR"
    retriable = True
    refresh_metadata = True


class LogDirNotFound(BrokerError):
    """Code 57."""

    code = 57
    name = "LOG_DIR_NOT_FOUND"


class SaslAuthenticationFailed(BrokerError):
    """Code 58."""

    code = 58
    name = "SASL_AUTHENTICATION_FAILED"


class UnknownProducerId(BrokerError):
    """Code 59."""

    code = 59
    name = "UNKNOWN_PRODUCER_ID"


class ReassignmentInProgress(BrokerError):
    """Code 60."""

    code = 60
    name = "REASSIGNMENT_IN_PROGRESS"


class DelegationTokenAuthDisabled(BrokerError):
    """Code 61."""

    code = 61
    name = "DELEGATION_TOKEN_AUTH_DISABLED"


class DelegationTokenNotFound(BrokerError):
    """Code 62."""

    code = 62
    name = "DELEGATION_TOKEN_NOT_FOUND"


class DelegationTokenOwnerMismatch(BrokerError):
    """Code 63."""

    code = 63
    name = "DELEGATION_TOKEN_OWNER_MISMATCH"


class DelegationTokenRequestNotAllowed(BrokerError):
    """Code 64."""

    code = 64
    name = "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"


class DelegationTokenAuthorizationFailed(BrokerError):
    """Code 65."""

    code = 65
    name = "DELEGATION_TOKEN_AUTHORIZATION_FAILED"


class DelegationTokenExpired(BrokerError):
    """Code 66."""

    code = 66
    name = "DELEGATION_TOKEN_EXPIRED"


class InvalidPrincipalType(BrokerError):
    """Code 67."""

    code = 67
    name = "INVALID_PRINCIPAL_TYPE"


class NonEmptyGroup(BrokerError):
    """Code 68."""

    code = 68
    name = "NON_EMPTY_GROUP"


class GroupIdNotFound(BrokerError):
    """Code 69."""

    code = 69
    name = "GROUP_ID_NOT_FOUND"


class FetchSessionIdNotFound(BrokerError):
    """Code 70; may succeed later."""

    code = 70
    name = "FETCH_SESSION_ID_NOT_FOUND"
    retriable = True


class InvalidFetchSessionEpoch(BrokerError):
    """Code 71; may succeed later."""

    code = 71
    name = "INVALID_FETCH_SESSION_EPOCH"
    retriable = True


class ListenerNotFound(BrokerError):
    """Code 72; may succeed later; metadata is stale."""

    code = 72
    name = "LISTENER_NOT_FOUND"
    retriable = True
    refresh_metadata = True


class TopicDeletionDisabled(BrokerError):
    """Code 73."""

    code = 73
    name = "TOPIC_DELETION_DISABLED"


class FencedLeaderEpoch(BrokerError):
    """Code 74; may succeed later; metadata is stale."""

    code = 74
    name = "FENCED_LEADER_EPOCH"
    retriable = True
    refresh_metadata = True


class UnknownLeaderEpoch(BrokerError):
    """Code 75; may succeed later."""

    code = 75
    name = "UNKNOWN_LEADER_EPOCH"
    retriable = True


class UnsupportedCompressionType(BrokerError):
    """Code 76."""

    code = 76
    name = "UNSUPPORTED_COMPRESSION_TYPE"


class StaleBrokerEpoch(BrokerError):
    """Code 77."""

    code = 77
    name = "STALE_BROKER_EPOCH"


class OffsetNotAvailable(BrokerError):
    """Code 78; may succeed later."""

    code = 78
    name = "OFFSET_NOT_AVAILABLE"
    retriable = True


class MemberIdRequired(BrokerError):
    """Code 79."""

    code = 79
    name = "MEMBER_ID_REQUIRED"


class PreferredLeaderNotAvailable(BrokerError):
    """Code 80; may succeed later; metadata is stale."""

    code = 80
    name = "PREFERRED_LEADER_NOT_AVAILABLE"
    retriable = True
    refresh_metadata = True


class GroupMaxSizeReached(BrokerError):
    """Code 81."""

    code = 81
    name = "GROUP_MAX_SIZE_REACHED"


class FencedInstanceId(BrokerError):
    """Code 82."""

    code = 82
    name = "FENCED_INSTANCE_ID"


class EligibleLeadersNotAvailable(BrokerError):
    """Code 83; may succeed later; metadata is stale."""

    code = 83
    name = "ELIGIBLE_LEADERS_NOT_AVAILABLE"
    retriable = True
    refresh_metadata = True


class ElectionNotNeeded(BrokerError):
    """Code 84; may succeed later; metadata is stale."""

    code = 84
    name = "ELECTION_NOT_NEEDED"
    retriable = True
    refresh_metadata = True


class NoReassignmentInProgress(BrokerError):
    """Code 85."""

    code = 85
    name = "NO_REASSIGNMENT_IN_PROGRESS"


class GroupSubscribedToTopic(BrokerError):
    """Code 86."""

    code = 86
    name = "GROUP_SUBSCRIBED_TO_TOPIC"


class InvalidRecord(BrokerError):
    """Code 87."""

    code = 87
    name = "INVALID_RECORD"


class UnstableOffsetCommit(BrokerError):
    """Code 88; may succeed later."""

    code = 88
    name = "UNSTABLE_OFFSET_COMMIT"
    retriable = True


class ThrottlingQuotaExceeded(BrokerError):
    """Code 89; may succeed later."""

    code = 89
    name = "THROTTLING_QUOTA_EXCEEDED"
    retriable = True


class ProducerFenced(BrokerError):
    """Code 90."""

    code = 90
    name = "PRODUCER_FENCED"


class ResourceNotFound(BrokerError):
    """Code 91."""

    code = 91
    name = "RESOURCE_NOT_FOUND"


class DuplicateResource(BrokerError):
    """Code 92."""

    code = 92
    name = "DUPLICATE_RESOURCE"


class UnacceptableCredential(BrokerError):
    """Code 93."""

    code = 93
    name = "UNACCEPTABLE_CREDENTIAL"


class InconsistentVoterSet(BrokerError):
    """Code 94."""

    code = 94
    name = "INCONSISTENT_VOTER_SET"


class InvalidUpdateVersion(BrokerError):
    """Code 95."""

    code = 95
    name = "INVALID_UPDATE_VERSION"


class FeatureUpdateFailed(BrokerError):
    """Code 96."""

    code = 96
    name = "FEATURE_UPDATE_FAILED"


class PrincipalDeserializationFailure(BrokerError):
    """Code 97."""

    code = 97
    name = "PRINCIPAL_DESERIALIZATION_FAILURE"


class SnapshotNotFound(BrokerError):
    """Code 98."""

    code = 98
    name = "SNAPSHOT_NOT_FOUND"


class PositionOutOfRange(BrokerError):
    """Code 99."""

    code = 99
    name = "POSITION_OUT_OF_RANGE"


class UnknownTopicId(BrokerError):
    """Code 100; may succeed later; metadata is stale."""

    code = 100
    name = "UNKNOWN_TOPIC_ID"
    retriable = True
    refresh_metadata = True


class DuplicateBrokerRegistration(BrokerError):
    """Code 101."""

    code = 101
    name = "DUPLICATE_BROKER_REGISTRATION"


class BrokerIdNotRegistered(BrokerError):
    """Code 102."""

    code = 102
    name = "BROKER_ID_NOT_REGISTERED"


class InconsistentTopicId(BrokerError):
    """Code 103; may succeed later; metadata is stale."""

    code = 103
    name = "INCONSISTENT_TOPIC_ID"
    retriable = True
    refresh_metadata = True


class InconsistentClusterId(BrokerError):
    """Code 104."""

    code = 104
    name = "INCONSISTENT_CLUSTER_ID"


class TransactionalIdNotFound(BrokerError):
    """Code 105."""

    code = 105
    name = "TRANSACTIONAL_ID_NOT_FOUND"


class FetchSessionTopicIdError(BrokerError):
    """Code 106; may succeed later."""

    code = 106
    name = "FETCH_SESSION_TOPIC_ID_ERROR"
    retriable = True


class IneligibleReplica(BrokerError):
    """Code 107."""

    code = 107
    name = "INELIGIBLE_REPLICA"


class NewLeaderElected(BrokerError):
    """Code 108."""

    code = 108
    name = "NEW_LEADER_ELECTED"


class OffsetMovedToTieredStorage(BrokerError):
    """Code 109."""

    code = 109
    name = "OFFSET_MOVED_TO_TIERED_STORAGE"


class FencedMemberEpoch(BrokerError):
    """Code 110."""

    code = 110
    name = "FENCED_MEMBER_EPOCH"


class UnreleasedInstanceId(BrokerError):
    """Code 111."""

    code = 111
    name = "UNRELEASED_INSTANCE_ID"


class UnsupportedAssignor(BrokerError):
    """Code 112."""

    code = 112
    name = "UNSUPPORTED_ASSIGNOR"


class StaleMemberEpoch(BrokerError):
    """Code 113."""

    code = 113
    name = "STALE_MEMBER_EPOCH"


class MismatchedEndpointType(BrokerError):
    """Code 114."""

    code = 114
    name = "MISMATCHED_ENDPOINT_TYPE"


class UnsupportedEndpointType(BrokerError):
    """Code 115."""

    code = 115
    name = "UNSUPPORTED_ENDPOINT_TYPE"


class UnknownControllerId(BrokerError):
    """Code 116."""

    code = 116
    name = "UNKNOWN_CONTROLLER_ID"


class UnknownSubscriptionId(BrokerError):
    """Code 117."""

    code = 117
    name = "UNKNOWN_SUBSCRIPTION_ID"


class TelemetryTooLarge(BrokerError):
    """Code 118."""

    code = 118
    name = "TELEMETRY_TOO_LARGE"


class InvalidRegistration(BrokerError):
    """Code 119."""

    code = 119
    name = "INVALID_REGISTRATION"


class TransactionAbortable(BrokerError):
    """Code 120."""

    code = 120
    name = "TRANSACTION_ABORTABLE"


class InvalidRecordState(BrokerError):
    """Code 121."""

    code = 121
    name = "INVALID_RECORD_STATE"


class ShareSessionNotFound(BrokerError):
    """Code 122; may succeed later."""

    code = 122
    name = "SHARE_SESSION_NOT_FOUND"
    retriable = True


class InvalidShareSessionEpoch(BrokerError):
    """Code 123; may succeed later."""

    code = 123
    name = "INVALID_SHARE_SESSION_EPOCH"
    retriable = True


class FencedStateEpoch(BrokerError):
    """Code 124."""

    code = 124
    name = "FENCED_STATE_EPOCH"


class InvalidVoterKey(BrokerError):
    """Code 125."""

    code = 125
    name = "INVALID_VOTER_KEY"


class DuplicateVoter(BrokerError):
    """Code 126."""

    code = 126
    name = "DUPLICATE_VOTER"


class VoterNotFound(BrokerError):
    """Code 127."""

    code = 127
    name = "VOTER_NOT_FOUND"


class InvalidRegularExpression(BrokerError):
    """Code 128."""

    code = 128
    name = "INVALID_REGULAR_EXPRESSION"


class RebootstrapRequired(BrokerError):
    """Code 129."""

    code = 129
    name = "REBOOTSTRAP_REQUIRED"


class StreamsInvalidTopology(BrokerError):
    """Code 130."""

    code = 130
    name = "STREAMS_INVALID_TOPOLOGY"


class StreamsInvalidTopologyEpoch(BrokerError):
    """Code 131."""

    code = 131
    name = "STREAMS_INVALID_TOPOLOGY_EPOCH"


class StreamsTopologyFenced(BrokerError):
    """Code 132."""

    code = 132
    name = "STREAMS_TOPOLOGY_FENCED"


class ShareSessionLimitReached(BrokerError):
    """Code 133; may succeed later."""

    code = 133
    name = "SHARE_SESSION_LIMIT_REACHED"
    retriable = True


ERRORS: Final[dict[int, type[BrokerError]]] = {
    -1: UnknownServerError,
    1: OffsetOutOfRange,
    2: CorruptMessage,
    3: UnknownTopicOrPartition,
    4: InvalidFetchSize,
    5: LeaderNotAvailable,
    6: NotLeaderOrFollower,
    7: RequestTimedOut,
    8: BrokerNotAvailable,
    9: ReplicaNotAvailable,
    10: MessageTooLarge,
    11: StaleControllerEpoch,
    12: OffsetMetadataTooLarge,
    13: NetworkException,
    14: CoordinatorLoadInProgress,
    15: CoordinatorNotAvailable,
    16: NotCoordinator,
    17: InvalidTopicException,
    18: RecordListTooLarge,
    19: NotEnoughReplicas,
    20: NotEnoughReplicasAfterAppend,
    21: InvalidRequiredAcks,
    22: IllegalGeneration,
    23: InconsistentGroupProtocol,
    24: InvalidGroupId,
    25: UnknownMemberId,
    26: InvalidSessionTimeout,
    27: RebalanceInProgress,
    28: InvalidCommitOffsetSize,
    29: TopicAuthorizationFailed,
    30: GroupAuthorizationFailed,
    31: ClusterAuthorizationFailed,
    32: InvalidTimestamp,
    33: UnsupportedSaslMechanism,
    34: IllegalSaslState,
    35: UnsupportedVersion,
    36: TopicAlreadyExists,
    37: InvalidPartitions,
    38: InvalidReplicationFactor,
    39: InvalidReplicaAssignment,
    40: InvalidConfig,
    41: NotController,
    42: InvalidRequest,
    43: UnsupportedForMessageFormat,
    44: PolicyViolation,
    45: OutOfOrderSequenceNumber,
    46: DuplicateSequenceNumber,
    47: InvalidProducerEpoch,
    48: InvalidTxnState,
    49: InvalidProducerIdMapping,
    50: InvalidTransactionTimeout,
    51: ConcurrentTransactions,
    52: TransactionCoordinatorFenced,
    53: TransactionalIdAuthorizationFailed,
    54: SecurityDisabled,
    55: OperationNotAttempted,
    56: KafkaStorageError,
    57: LogDirNotFound,
    58: SaslAuthenticationFailed,
    59: UnknownProducerId,
    60: ReassignmentInProgress,
    61: DelegationTokenAuthDisabled,
    62: DelegationTokenNotFound,
    63: DelegationTokenOwnerMismatch,
    64: DelegationTokenRequestNotAllowed,
    65: DelegationTokenAuthorizationFailed,
    66: DelegationTokenExpired,
    67: InvalidPrincipalType,
    68: NonEmptyGroup,
    69: GroupIdNotFound,
    70: FetchSessionIdNotFound,
    71: InvalidFetchSessionEpoch,
    72: ListenerNotFound,
    73: TopicDeletionDisabled,
    74: FencedLeaderEpoch,
    75: UnknownLeaderEpoch,
    76: UnsupportedCompressionType,
    77: StaleBrokerEpoch,
    78: OffsetNotAvailable,
    79: MemberIdRequired,
    80: PreferredLeaderNotAvailable,
    81: GroupMaxSizeReached,
    82: FencedInstanceId,
    83: EligibleLeadersNotAvailable,
    84: ElectionNotNeeded,
    85: NoReassignmentInProgress,
    86: GroupSubscribedToTopic,
    87: InvalidRecord,
    88: UnstableOffsetCommit,
    89: ThrottlingQuotaExceeded,
    90: ProducerFenced,
    91: ResourceNotFound,
    92: DuplicateResource,
    93: UnacceptableCredential,
    94: InconsistentVoterSet,
    95: InvalidUpdateVersion,
    96: FeatureUpdateFailed,
    97: PrincipalDeserializationFailure,
    98: SnapshotNotFound,
    99: PositionOutOfRange,
    100: UnknownTopicId,
    101: DuplicateBrokerRegistration,
    102: BrokerIdNotRegistered,
    103: InconsistentTopicId,
    104: InconsistentClusterId,
    105: TransactionalIdNotFound,
    106: FetchSessionTopicIdError,
    107: IneligibleReplica,
    108: NewLeaderElected,
    109: OffsetMovedToTieredStorage,
    110: FencedMemberEpoch,
    111: UnreleasedInstanceId,
    112: UnsupportedAssignor,
    113: StaleMemberEpoch,
    114: MismatchedEndpointType,
    115: UnsupportedEndpointType,
    116: UnknownControllerId,
    117: UnknownSubscriptionId,
    118: TelemetryTooLarge,
    119: InvalidRegistration,
    120: TransactionAbortable,
    121: InvalidRecordState,
    122: ShareSessionNotFound,
    123: InvalidShareSessionEpoch,
    124: FencedStateEpoch,
    125: InvalidVoterKey,
    126: DuplicateVoter,
    127: VoterNotFound,
    128: InvalidRegularExpression,
    129: RebootstrapRequired,
    130: StreamsInvalidTopology,
    131: StreamsInvalidTopologyEpoch,
    132: StreamsTopologyFenced,
    133: ShareSessionLimitReached,
}


def error_for(code: int, message: str | None = "") -> BrokerError:
    """Make the error that a code on the wire stands for.

    Args:
        code: Any code but 0; one that the table lacks is kept in the error's `code`.
        message: The peer's own words; see `peer_text`.

    Returns:
        A fresh error; `code`, `name`, `retriable` and `refresh_metadata` say what to do.

    Raises:
        ValueError: `code` is 0, which is success.
    """
    if code == 0:
        raise ValueError("code 0 is success, not an error")
    error_class = ERRORS.get(code, BrokerError)
    name = error_class.name if code in ERRORS else f"UNKNOWN_ERROR_{code}"
    said = peer_text(message or "")
    error = error_class(f"{name} (code {code})" + (f": {said}" if said else ""))
    if code not in ERRORS:
        error.code, error.name = code, name
    return error
