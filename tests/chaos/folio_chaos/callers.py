"""Who may call a node: certificates of its workers and of clients, and the file of --access with its tenants.

Certificates begin a month ago, because the time of day of the daemons is set back by some faults.
"""

from access import bearer, token_line
from certificates import Authority, Pair, replace, tls
from step_clock import StepClock

MONTH, YEARS = 30, 3650  # days
CROWD = "crowd.example"  # the name in the certificate of the crowd's clients
HOSTILE = "mallory"
HOSTILE_REQUESTS = 20  # that this tenant may begin in a minute

TOKENS = {name: f"{name}-token-of-chaos" for name in ("north", HOSTILE)}

# Clients at Unix sockets and those with the crowd's certificate ask for all tenants, as a gateway does.
ACCESS = "\n".join([
    "tenant north",
    "tenant south",
    f"tenant {HOSTILE} requests_per_minute={HOSTILE_REQUESTS}",
    *(token_line(token, tenant) for tenant, token in TOKENS.items()),
    f"cert {CROWD} *",
    "unix * steer",
    "",
])  # fmt: skip


def shows(tenant):
    """The metadata of a call of that tenant."""
    return bearer(TOKENS[tenant])


class Certificates:
    """Those of a run, in a directory of their own."""

    def __init__(self, directory, shim):
        directory.mkdir()
        clock = StepClock(shim, directory / "clock")
        clock.step(-MONTH * 86400)
        self.directory = directory
        self.authority, self.stranger = (
            Authority(directory, name, days=YEARS, environment=clock.environment) for name in ("authority", "stranger")
        )
        self.valid = [self.authority.issue(f"server{number}", days=YEARS) for number in range(2)]
        self.expired = self.authority.issue("expired-server", days=1)
        names = [f"DNS:{CROWD}"]
        self.crowd = self.client(self.authority.issue("crowd", names, days=YEARS))
        # How a client shows itself that is refused.
        self.refused = {
            "an expired certificate": self.client(self.authority.issue("late", names, days=1)),
            "a stranger's certificate": self.client(self.stranger.issue("crowd2", names, days=YEARS)),
            "no certificate": self.client(None),
        }

    def client(self, pair):
        return tls(self.authority, pair)

    def served(self, name):
        """A pair of files that workers serve, and whose contents `serve` replaces."""
        pair = Pair(self.directory / f"{name}.pem", self.directory / f"{name}.key")
        self.serve(pair, self.valid[0])
        return pair

    @staticmethod
    def serve(files, pair):
        replace(files.cert, pair.cert)
        replace(files.key, pair.key)
