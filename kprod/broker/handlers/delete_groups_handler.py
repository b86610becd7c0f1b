"""DeleteGroups: end groups without members, and forget their offsets.

Behaviour, for each group once.
    A. Unknown: GROUP_ID_NOT_FOUND. It has members: NON_EMPTY_GROUP.
    B. Another coordinator, or one that is loading: told for the group.
    C. The response waits until the in-sync replicas have the tombstones; until then the offsets are
       fetched as before.
    D. More tombstones than a batch of `__consumer_offsets` has room for are written as several;
       Kafka rejects such a deletion with UNKNOWN_SERVER_ERROR.
Rights: DELETE on the group.
Versions: 0 to 2.
Source: Kafka GroupCoordinatorService.deleteGroups; KIP-229.
"""

from functools import partial
from itertools import starmap
from typing import Any

from kprod.broker.cluster_state import ClusterState
from kprod.broker.group.committing import delete_group
from kprod.broker.handlers.request_handler import Handler
from kprod.broker.rejection import Rejected
from kprod.broker.request import Body, Request
from kprod.protocol.api import ApiKey

_Results = dict[str, int | None]
"""Error codes by group; None for one that is not known yet."""


class DeleteGroupsHandler(Handler):
    """Ends groups."""

    api_key = ApiKey.DELETE_GROUPS
    versions: tuple[int, int] = (0, 2)
    advertised: tuple[int, int] = versions

    def __init__(self, state: ClusterState) -> None:
        """Serve a cluster."""
        self._state = state

    def handle(self, request: Request) -> None:
        """Answer now, or when all tombstones are replicated."""
        results: _Results = dict.fromkeys(request.body["groups_names"])
        if not results:
            request.answer({"results": []})
        for group_id in list(results):
            finish = partial(self._finish, request, results, group_id)
            try:
                request.access.check("DELETE", "group", group_id)
                shard = self._state.groups.shard(request.node_id, group_id)
            except Rejected as rejected:
                finish(rejected.code)  # case B
            else:
                delete_group(shard, group_id, finish)

    def reject(self, request: Request, code: int) -> Body:
        """The code for every group."""
        return {"results": [_result(it, code) for it in request.body["groups_names"]]}

    def _finish(self, request: Request, results: _Results, group_id: str, code: int) -> None:
        results[group_id] = int(code)
        told = {name: known for name, known in results.items() if known is not None}
        if len(told) == len(results):
            request.answer({"results": list(starmap(_result, told.items()))})


def _result(group_id: str, code: int) -> dict[str, Any]:
    return {"group_id": group_id, "error_code": int(code)}
