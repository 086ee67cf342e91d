"""The console's page in a browser, and sequences for it to show."""

import contextlib
import re

from node import PATIENCE, wait_until
from playwright.sync_api import expect
from processes import stopped

CHROMIUM = "/usr/bin/chromium"
PATIENCE_MS = PATIENCE * 1000
expect.set_options(timeout=PATIENCE_MS)

# Each violation of the policy for contents is noted, also those that the console of the browser does not tell.
WATCH_POLICY = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => violations.push(`${event.violatedDirective}: ${event.blockedURI}`));
"""


class Console:
    """A window on the page of a gateway. It remembers the requests and the complaints of the page."""

    def __init__(self, browser, gateway, width=1440, height=900, **options):
        self.origin = f"http://127.0.0.1:{gateway.port}"
        self.context = browser.new_context(viewport={"width": width, "height": height}, **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.add_init_script(WATCH_POLICY)
        self.complaints, self.requests = [], []
        self.page.on("console", self.hear)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def hear(self, message):
        # The browser itself reports answers such as 503, of which tests look at what the page makes. And tests read canvases often.
        expected = message.text.startswith("Failed to load resource") or "willReadFrequently" in message.text
        if message.type in ("error", "warning") and not expected:
            self.complaints.append(message.text)

    def open(self, view=""):
        """Opens a view by its address, such as "pages?by=layer"."""
        self.page.goto(f"{self.origin}/console/#/{view}")

    def close(self):
        self.context.close()

    def assert_no_complaint(self):
        assert not self.complaints, self.complaints
        assert self.page.evaluate("window.violations") == []
        assert all(url.startswith((self.origin, "data:")) for url in self.requests), self.requests

    def panel(self, title):
        return self.page.get_by_role("region", name=title, exact=True)

    def row(self, table, text):
        """The row of a table that has the text."""
        return self.page.get_by_role("group", name=table, exact=True).get_by_role("row").filter(has_text=text)

    def figure(self, label):
        """The large number below a label of the pool."""
        return self.panel("Pool").locator(".figures > div").filter(has_text=re.compile(rf"^{label}")).locator(".figure-value")

    def map(self, name):
        return self.page.get_by_role("application", name=re.compile(name))

    def pixel(self, canvas, x, y):
        """The colour at a place of a canvas, in CSS pixels, as "rgb(1, 2, 3)"."""
        return canvas.evaluate(
            """(canvas, [x, y]) => {
                const scale = canvas.width / canvas.getBoundingClientRect().width;
                const [r, g, b] = canvas.getContext("2d").getImageData(x * scale, y * scale, 1, 1).data;
                return `rgb(${r}, ${g}, ${b})`;
            }""",
            [x, y],
        )

    def drawn(self, canvas):
        """How many colours a canvas shows."""
        return canvas.evaluate(
            """(canvas) => new Set(new Uint32Array(
                canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size"""
        )


TEXT = "The harbour was quiet when Mara counted seven lanterns beside the northern wall and wrote their number down. "


@contextlib.contextmanager
def sequence(gateway, node, label="night shift", words=20, tokens=4000, **cache):
    """The id of a sequence that decodes for seconds, and is closed at the end."""
    body = {
        "messages": [{"role": "user", "content": TEXT * words}],
        "max_tokens": tokens, "ignore_eos": True, "user": label, "stream": True, "temperature": 0,
        "cache": {"policy": "paged_eviction", "budget": 128, **cache},
    }  # fmt: skip
    connection, response = gateway.open("/v1/chat/completions", body)
    try:
        assert response.status == 200 and response.readline().startswith(b"data: ")
        (one,) = [one for one in node.sequences() if one.label == label]
        yield one.sequence_id
    finally:
        # The response holds the socket too.
        response.close()
        connection.close()
    wait_until(lambda: one.sequence_id not in {other.sequence_id for other in node.sequences()}, PATIENCE, "it is closed")


@contextlib.contextmanager
def still(node, sequence_id):
    """What the manager tells of the sequence, whose worker is stopped so that it makes no step."""
    seen = []

    def same():
        seen.append(node.sequence(sequence_id))
        return len(seen) > 1 and seen[-2].sequence.logical_length == seen[-1].sequence.logical_length and seen[-1]

    with stopped(node.workers["worker"].pid):
        yield wait_until(same, PATIENCE, "the manager has read what the worker sent")
