"""The exchange between client and broker on a new connection before the first request.

A handshake is a list of steps. A step makes a request and reads the body of its response; then it
asks again, or the next step begins. ApiVersions is the first; a login may follow. No socket here:
the connection sends what `request` makes, and hands over each response's body. A step whose next
message takes long to make, as a password's or a token's may, says so; it calls when it can
continue.

Thread-safety: one thread.
Source: Kafka's NetworkClient.handleInitiateApiVersionRequests (clients 4.3.1); KIP-35, KIP-511.
"""

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from kprod.network.client_request import ClientRequest, Outcome
from kprod.network.negotiation import BrokerFeatures, Negotiation
from kprod.network.throttle import requested_throttle_ms
from kprod.protocol.api import ApiKey


class Progress(enum.Enum):
    """The next step of a handshake."""

    ASK = "a request can be made"
    WAIT = "the next message is being made"
    DONE = "nothing is left"


class Step(Protocol):
    """One exchange of a handshake."""

    api_key: ApiKey
    """Key of the step's requests."""

    def prepare(self, resume: Callable[[], None]) -> Progress:
        """Prepare the next request.

        Args:
            resume: Called once, later, on the client's thread, if this returns `WAIT`.

        Returns:
            `ASK` or `WAIT`; `DONE` if the step needs no further request.

        Raises:
            KprodError: The next message cannot be made.
        """
        del resume
        return Progress.ASK

    @property
    def version(self) -> int:
        """In which the next request is written."""

    def request_body(self) -> Mapping[str, Any]:
        """Make the next request's fields."""

    def take(self, body: memoryview) -> bool:
        """Read a response.

        Args:
            body: Without its header.

        Returns:
            True if the step is over, False if it asks again.

        Raises:
            KprodError: The connection cannot be used.
        """


class ApiVersionsStep(Step):
    """Asks which versions the broker speaks.

    Attributes:
        features: Features that the broker reported; None before its response.
        throttle_ms: Time for which the broker wants no further request.
    """

    __slots__ = ("_negotiation", "features", "throttle_ms")

    api_key = ApiKey.API_VERSIONS

    def __init__(self) -> None:
        """Make a step that has asked nothing yet."""
        self._negotiation = Negotiation()
        self.features: BrokerFeatures | None = None
        self.throttle_ms: int = 0

    @property
    def version(self) -> int:
        """See `Step`."""
        return self._negotiation.version

    def request_body(self) -> Mapping[str, Any]:
        """See `Step`."""
        return self._negotiation.request_body()

    def take(self, body: memoryview) -> bool:
        """See `Step`; a broker that rejects the version is asked again in a lower one."""
        answer = self._negotiation.take_response(body)
        if answer is None:
            return False
        self.features, decoded = answer
        self.throttle_ms = requested_throttle_ms(self.api_key, self.version, decoded)
        return True


class Handshake:
    """The steps of one new connection, or of another login on an established one.

    Attributes:
        api_versions: The step that every connection has.
        login: The last step; None without a login.
    """

    __slots__ = ("_login_deadline_ms", "_steps", "api_versions", "login")

    def __init__(
        self, api_versions: ApiVersionsStep, login: Sequence[Step] = (), *, is_again: bool = False
    ) -> None:
        """Make a handshake that begins with its first step.

        Args:
            api_versions: The first step.
            login: The steps after it; empty without a login.
            is_again: Whether the connection is established and has completed the first step.
        """
        self.api_versions: ApiVersionsStep = api_versions
        self.login: Step | None = login[-1] if login else None
        self._steps: list[Step] = [*login] if is_again else [api_versions, *login]
        self._login_deadline_ms: int | None = None

    @property
    def is_logging_in(self) -> bool:
        """Whether ApiVersions is over, and a step is left."""
        return bool(self._steps) and self._steps[0] is not self.api_versions

    def begin_login(self, deadline_ms: int) -> None:
        """Let all requests of the login end by one instant.

        Args:
            deadline_ms: Monotonic.
        """
        self._login_deadline_ms = deadline_ms

    def request(self, node_id: int, now_ms: int) -> tuple[ClientRequest, int]:
        """Make the present step's next request.

        Args:
            node_id: Id of the node.
            now_ms: Monotonic time.

        Returns:
            The request, and the version to write it in.
        """
        step = self._steps[0]
        deadline_ms = self._login_deadline_ms
        timeout_ms = None if deadline_ms is None else max(deadline_ms - now_ms, 1)
        request = ClientRequest(
            node_id=node_id,
            api_key=step.api_key,
            body=step.request_body(),
            on_complete=_ignore,
            timeout_ms=timeout_ms,
        )
        return request, step.version

    def take(self, body: memoryview) -> None:
        """Hand a response to the present step.

        Args:
            body: Without its header.

        Raises:
            KprodError: The connection cannot be used.
        """
        if self._steps[0].take(body):
            del self._steps[0]

    def go_on(self, resume: Callable[[], None]) -> Progress:
        """Find the next step.

        Args:
            resume: Called once, later, on the client's thread, if this returns `WAIT`.

        Returns:
            `DONE` when all steps are over.

        Raises:
            KprodError: The connection cannot be used.
        """
        while self._steps:
            progress = self._steps[0].prepare(resume)
            if progress is not Progress.DONE:
                return progress
            del self._steps[0]
        return Progress.DONE


def _ignore(outcome: Outcome) -> None:
    """Complete a request whose response the handshake itself reads."""
