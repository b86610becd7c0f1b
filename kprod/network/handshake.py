"""What client and broker tell each other on a new connection before the first request.

A handshake is a list of steps. A step makes a request and reads the body of its response; then it
asks again, or the next step begins. There is one step so far, ApiVersions. No socket here: the
connection sends what `request` makes, and hands over each response's body.

Thread-safety: one thread.
Source: Kafka's NetworkClient.handleInitiateApiVersionRequests (clients 4.3.1); KIP-35, KIP-511.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from kprod.network.client_request import ClientRequest, Outcome
from kprod.network.negotiation import BrokerFeatures, Negotiation
from kprod.network.throttle import requested_throttle_ms
from kprod.protocol.api import ApiKey


class Step(Protocol):
    """One exchange of a handshake."""

    api_key: ApiKey
    """Which request."""

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


class ApiVersionsStep:
    """Asks which versions the broker speaks.

    Attributes:
        features: What the broker said; None before.
        throttle_ms: How long the broker wants no further request.
    """

    __slots__ = ("_negotiation", "features", "throttle_ms")

    api_key = ApiKey.API_VERSIONS

    def __init__(self) -> None:
        """Make a step that has asked nothing yet."""
        self._negotiation = Negotiation()
        self.features: BrokerFeatures | None = None
        self.throttle_ms = 0

    @property
    def version(self) -> int:
        """See `Step`."""
        return self._negotiation.version

    def request_body(self) -> Mapping[str, Any]:
        """See `Step`."""
        return self._negotiation.request_body()

    def take(self, body: memoryview) -> bool:
        """See `Step`; a broker that refuses the version is asked again in a lower one."""
        answer = self._negotiation.take_response(body)
        if answer is None:
            return False
        self.features, decoded = answer
        self.throttle_ms = requested_throttle_ms(self.api_key, self.version, decoded)
        return True


class Handshake:
    """The steps of one new connection.

    Attributes:
        api_versions: The step that every handshake has.
    """

    __slots__ = ("_steps", "api_versions")

    def __init__(self) -> None:
        """Make a handshake that begins with its first step."""
        self.api_versions = ApiVersionsStep()
        self._steps: list[Step] = [self.api_versions]

    def request(self, node_id: int) -> tuple[ClientRequest, int]:
        """Make the present step's next request.

        Args:
            node_id: Where to.

        Returns:
            The request, and the version to write it in.
        """
        step = self._steps[0]
        request = ClientRequest(
            node_id=node_id,
            api_key=step.api_key,
            body=step.request_body(),
            on_complete=_ignore,
        )
        return request, step.version

    def take(self, body: memoryview) -> bool:
        """Hand a response to the present step.

        Args:
            body: Without its header.

        Returns:
            True if all steps are over, False if there is another request to send.

        Raises:
            KprodError: The connection cannot be used.
        """
        if self._steps[0].take(body):
            del self._steps[0]
        return not self._steps


def _ignore(outcome: Outcome) -> None:
    """Complete a request whose response the handshake itself reads."""
