"""The times that daemons and clients of a run are given, in seconds, and the bounds that follow from them."""

# Flags of the daemons.
LEASE = 8
KILL_FENCED_AFTER = 4
ORPHAN_TTL = 18
ORPHAN_GRACE = 10
STEP_TIMEOUT = 8
SLOW_CLIENT_TIMEOUT = 8
DRAIN = 20

# Options of the clients.
REQUEST = 120  # the deadline of a request
RESUME = 60  # how long a client looks for a worker that continues its sequence
KEEPALIVE = 15

# A client's call ends by its deadline. The rest is for a busy machine.
CALL_ENDS = REQUEST + 5
# A worker hangs until it is killed, starts again, and its clients find it. A busy machine may take four times as long.
NEXT_TOKEN = 4 * (LEASE + KILL_FENCED_AFTER + 3)
# Pages of a lost worker are blocked until its process is killed.
QUARANTINE = KILL_FENCED_AFTER + 4
# A sequence whose client never learned of it ends as an orphan.
ALL_FREE = ORPHAN_TTL + 5
SERVES_AGAIN = 30

MANAGER_FLAGS = [
    f"--kill_fenced_after={KILL_FENCED_AFTER}s",
    f"--orphan_ttl={ORPHAN_TTL}s",
    f"--orphan_grace={ORPHAN_GRACE}s",
    f"--drain_timeout={DRAIN}s",
]
WORKER_FLAGS = [
    "--threads=1",
    "--prefill_chunk=128",
    f"--step_timeout={STEP_TIMEOUT}s",
    f"--slow_client_timeout={SLOW_CLIENT_TIMEOUT}s",
]
