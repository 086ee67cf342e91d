"""The calls of a client that its manager answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import grpc

from folio import checks, requests
from folio.errors import from_rpc
from folio.events import AsyncEvents, Events, events_message
from folio.inspection import (
    Device,
    Explanation,
    Manager,
    PageRun,
    Pool,
    SequenceInfo,
    SequenceTables,
    Tenant,
    Worker,
)
from folio.messages import read
from folio.policies import Policy
from folio.requests import DecisionArguments
from folio.server import Server
from folio.v1 import admin_pb2

if TYPE_CHECKING:
    from typing_extensions import Unpack  # in typing from Python 3.11 on


class ManagerCalls:
    """The part of `Client` that asks the manager."""

    _manager: Server

    def _seconds(self, timeout: float | None) -> float | None:
        """The timeout of a call."""
        raise NotImplementedError

    def manager(self, *, timeout: float | None = None) -> Manager:
        """The manager's process: its build, its process id and for how long it has served."""
        manager: Manager = read(self._manager.call("GetManager", admin_pb2.GetManagerRequest(), self._seconds(timeout)))
        return manager

    def pools(self, *, timeout: float | None = None) -> tuple[Pool, ...]:
        """The manager's pools. There is one, or none until the first worker has attached."""
        answer = self._manager.call("ListPools", admin_pb2.ListPoolsRequest(), self._seconds(timeout))
        return tuple(read(pool) for pool in answer.pools)

    def devices(self, *, timeout: float | None = None) -> tuple[Device, ...]:
        """The GPUs whose memory holds the manager's pages. Empty if the pages are in host memory."""
        answer = self._manager.call("ListPools", admin_pb2.ListPoolsRequest(), self._seconds(timeout))
        return tuple(read(device) for device in answer.devices)

    def workers(self, *, timeout: float | None = None) -> tuple[Worker, ...]:
        """The workers that have a lease, and the lost ones that still block pages, in the order in which they came."""
        answer = self._manager.call("ListWorkers", admin_pb2.ListWorkersRequest(), self._seconds(timeout))
        return tuple(read(worker) for worker in answer.workers)

    def events(
        self, after: int = 0, *, follow: bool = False, kinds: Iterable[str] | str = (), timeout: float | None = None
    ) -> Events:
        """Tells what happened in the manager, oldest first, and with `follow` also what happens from now on.

        after    leaves out the events up to this number.
        kinds    are words of `folio.EVENT_KINDS`, or "all". Without any, those are left out that requests and steps
                 make: "sequence_waiting", "sequence_opened", "sequence_closed", "pages_evicted" and
                 "sequence_parked".
        timeout  limits the whole stream in seconds. None is the client's.
        """
        return Events(self._manager, events_message(after, follow, kinds), self._seconds(timeout))

    def aevents(
        self, after: int = 0, *, follow: bool = False, kinds: Iterable[str] | str = (), timeout: float | None = None
    ) -> AsyncEvents:
        """As `events`, for the running event loop. Iterate with `async for`."""
        return AsyncEvents(self._manager, events_message(after, follow, kinds), self._seconds(timeout))

    def sequences(self, *, timeout: float | None = None) -> tuple[SequenceInfo, ...]:
        """The sequences that are open, by id."""
        answer = self._manager.call("ListSequences", admin_pb2.ListSequencesRequest(), self._seconds(timeout))
        return tuple(read(sequence) for sequence in answer.sequences)

    def tenants(self, *, timeout: float | None = None) -> tuple[Tenant, ...]:
        """The tenants that have sequences, requests that wait for pages, or a quota, by name."""
        answer = self._manager.call("ListTenants", admin_pb2.ListTenantsRequest(), self._seconds(timeout))
        return tuple(read(tenant) for tenant in answer.tenants)

    def pages(self, *, layers: bool = False, scores: bool = False, timeout: float | None = None) -> tuple[PageRun, ...]:
        """The owner of each page, as runs of neighbours in the order of the pages. With `layers` or `scores` a run also
        has these of held pages. Raises `ResourceExhausted` while another call of this kind runs."""
        request = admin_pb2.ListPagesRequest(
            layers=checks.flag("layers", layers), scores=checks.flag("scores", scores)
        )
        answers = self._manager.call("ListPages", request, self._seconds(timeout))
        try:
            return tuple(read(run) for answer in answers for run in answer.runs)
        except grpc.RpcError as error:
            raise from_rpc(error, self._manager.name) from error

    def sequence(self, sequence_id: int, *, timeout: float | None = None) -> SequenceTables:
        """One sequence, layer by layer. Raises `NotFound` if it is not open."""
        request = requests.sequence_message(sequence_id)
        tables: SequenceTables = read(self._manager.call("GetSequence", request, self._seconds(timeout)))
        return tables

    def explain(
        self,
        sequence_id: int,
        policy: Policy | str | None = None,
        budget: int | float | None = None,
        *,
        timeout: float | None = None,
        **cache: Unpack[DecisionArguments],
    ) -> Explanation:
        """A dry run of a decision, which lists what would leave the cache now, with scores. Without cache
        arguments, which are those of `generate`, it is the decision of the sequence's own policy."""
        requests.check_names("explain", cache, DecisionArguments)
        request = requests.explain_message(sequence_id, requests.cache_message(policy, budget, **cache))
        found: Explanation = read(self._manager.call("ExplainEviction", request, self._seconds(timeout)))
        return found
