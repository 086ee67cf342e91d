"""The calls of a client that have its manager do something."""

from __future__ import annotations

from folio import checks
from folio.server import Server
from folio.v1 import admin_pb2


def _id(value: int) -> int:
    return checks.integer("sequence_id", value, most=checks.UINT64)


class SteeringCalls:
    """The part of `Client` that has the manager do something. The reason goes to its log and its events, and has at
    most 256 bytes. All calls raise `PermissionDenied` if the manager was started with --steering=false."""

    _manager: Server

    def _seconds(self, timeout: float | None) -> float | None:
        """The timeout of a call."""
        raise NotImplementedError

    def close_sequence(self, sequence_id: int, reason: str = "", *, timeout: float | None = None) -> None:
        """Ends a sequence, whose client gets `Aborted` with the reason. Raises `NotFound` if it is not open."""
        request = admin_pb2.CloseSequenceRequest(sequence_id=_id(sequence_id), reason=reason)
        self._manager.call("CloseSequence", request, self._seconds(timeout))

    def park_sequence(self, sequence_id: int, reason: str = "", *, timeout: float | None = None) -> None:
        """Has a sequence give its pages back. It continues with the same tokens when there is room. Raises `NotFound`,
        and `FailedPrecondition` if it is pinned, parked or an orphan."""
        request = admin_pb2.ParkSequenceRequest(sequence_id=_id(sequence_id), reason=reason)
        self._manager.call("ParkSequence", request, self._seconds(timeout))

    def pin_sequence(self, sequence_id: int, reason: str = "", *, timeout: float | None = None) -> None:
        """Protects a sequence from being parked. Raises `NotFound`, and `ResourceExhausted` if the pool is too small
        for all pinned sequences together."""
        request = admin_pb2.PinSequenceRequest(sequence_id=_id(sequence_id), reason=reason)
        self._manager.call("PinSequence", request, self._seconds(timeout))

    def unpin_sequence(self, sequence_id: int, reason: str = "", *, timeout: float | None = None) -> None:
        """Ends the protection by `pin_sequence`. Raises `NotFound`."""
        request = admin_pb2.PinSequenceRequest(sequence_id=_id(sequence_id), undo=True, reason=reason)
        self._manager.call("PinSequence", request, self._seconds(timeout))

    def lower_budget(
        self, sequence_id: int, budget_tokens: int, reason: str = "", *, timeout: float | None = None
    ) -> int:
        """Lowers the budget of each layer of a sequence to so many tokens, rounded up to whole pages. Its
        policy evicts down to that while it decodes. Returns how many pages are to go. Raises `NotFound`,
        `FailedPrecondition` if its policy evicts nothing or its prompt is in prefill, and `InvalidArgument` if no layer
        has more, or the policy protects more."""
        request = admin_pb2.LowerBudgetRequest(
            sequence_id=_id(sequence_id),
            budget_tokens=checks.integer("budget_tokens", budget_tokens, most=checks.UINT32),
            reason=reason,
        )
        return int(self._manager.call("LowerBudget", request, self._seconds(timeout)).pages_over_budget)

    def set_quota(
        self,
        tenant: str,
        reason: str = "",
        *,
        sequences: int | None = None,
        pages: int | None = None,
        requests_per_minute: int | None = None,
        timeout: float | None = None,
    ) -> None:
        """Sets the most that a tenant may have, until the manager ends or its --access file changes: so many sequences open at
        a time, so many pages that these may come to hold together, and so many requests that begin in a minute, all at once
        after a pause. Without any of them the quota is taken away. It ends nothing that is open, and a request beyond it raises `ResourceExhausted`. Raises `InvalidArgument` if the name is too long."""
        quota = admin_pb2.Quota()
        if sequences is not None:
            quota.sequences = checks.integer("sequences", sequences, most=checks.UINT32)
        if pages is not None:
            quota.pages = checks.integer("pages", pages, most=checks.UINT32)
        if requests_per_minute is not None:
            rate = checks.integer("requests_per_minute", requests_per_minute, least=1, most=1_000_000)
            quota.requests_per_minute = rate
        request = admin_pb2.SetQuotaRequest(tenant=tenant, quota=quota, reason=reason)
        self._manager.call("SetQuota", request, self._seconds(timeout))

    def drain(
        self, worker_id: str = "", reason: str = "", *, undo: bool = False, timeout: float | None = None
    ) -> int:
        """Has a worker take no new sequences, or all workers if no id is given, or with `undo` ends that. Returns how
        many sequences run there. Raises `NotFound`, and `FailedPrecondition` if the worker is fenced."""
        request = admin_pb2.DrainRequest(worker_id=worker_id, undo=checks.flag("undo", undo), reason=reason)
        return int(self._manager.call("Drain", request, self._seconds(timeout)).sequences)

    def release_quarantine(
        self, worker_id: str, reason: str = "", *, process_has_ended: bool, timeout: float | None = None
    ) -> int:
        """Gives the pages of a fenced worker back, and returns how many they were. With `process_has_ended` the caller
        vouches that all its processes have ended. If one still wrote, it would damage the sequences that get these
        pages. Raises `NotFound`, and `FailedPrecondition` if the worker is not fenced or is seen to run."""
        request = admin_pb2.ReleaseQuarantineRequest(
            worker_id=worker_id, process_has_ended=checks.flag("process_has_ended", process_has_ended), reason=reason
        )
        return int(self._manager.call("ReleaseQuarantine", request, self._seconds(timeout)).freed_pages)
