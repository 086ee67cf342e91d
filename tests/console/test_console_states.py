"""The console when a key is wanted, when the manager is away, and when its tab is hidden."""

import hashlib
import re

import pytest
from console import sequence
from gateway import Gateway
from node import PATIENCE, Node, wait_until
from playwright.sync_api import expect

OPERATOR, USER = "sk-operator-1", "sk-user-1"


@pytest.fixture(scope="module")
def locked(node, tmp_path_factory):
    """A gateway with an operator's key and another one."""
    keys = tmp_path_factory.mktemp("keys") / "keys"
    digest = {key: hashlib.sha256(key.encode()).hexdigest() for key in (OPERATOR, USER)}
    keys.write_text(f"{digest[OPERATOR]} house operator\n{digest[USER]} house\n")
    with Gateway(node, flags=[f"--manager={node.manager_address}", f"--api_keys={keys}"]) as gateway:
        yield gateway


def give(console, key):
    console.page.get_by_label("API key").fill(key)
    console.page.get_by_role("button", name="Use this key").click()


def test_a_key_is_asked_for_and_stays_in_the_tab(open_console, locked):
    console = open_console(locked)
    expect(console.page.get_by_role("heading", name="This gateway wants an operator's key")).to_be_visible()
    assert console.page.get_by_label("API key").get_attribute("type") == "password"
    give(console, "sk-wrong")
    expect(console.page.get_by_role("alert")).to_contain_text(re.compile("key", re.I))
    give(console, USER)
    expect(console.page.get_by_role("alert")).to_contain_text("operator")
    # Without a right key the page asks the manager nothing more.
    asked = len(console.requests)
    console.page.wait_for_timeout(3000)
    assert len(console.requests) == asked
    give(console, OPERATOR)
    expect(console.panel("Pool")).to_be_visible()
    console.page.reload()
    expect(console.panel("Pool")).to_be_visible()
    kept = console.page.evaluate("[JSON.stringify(sessionStorage), JSON.stringify(localStorage), document.cookie, location.href]")
    assert OPERATOR in kept[0] and not any(OPERATOR in text for text in kept[1:])
    assert not any("sk-" in url for url in console.requests)
    console.page.get_by_role("button", name="Forget key").click()
    expect(console.page.get_by_label("API key")).to_be_visible()
    assert console.page.evaluate("sessionStorage.length") == 0


def test_a_user_may_ask_without_seeing_the_state(open_console, locked):
    console = open_console(locked, "ask?prompt=Hello&max=4&a.policy=full&b.policy=full")
    expect(console.page.get_by_role("heading", name="This gateway wants a key")).to_be_visible()
    give(console, USER)
    console.page.get_by_role("button", name="Ask both").click()
    for letter in "AB":
        expect(console.panel(f"Side {letter}").locator(".tag")).to_have_text("complete")
    assert USER not in console.page.url
    console.open("pages")
    expect(console.page.get_by_role("alert")).to_contain_text("operator")


def test_the_manager_goes_away_and_comes_back(open_console, long_model):
    with Node(pool="8MiB") as node:
        node.start_worker(model=long_model)
        with Gateway(node, flags=[f"--manager={node.manager_address}"]) as gateway:
            console = open_console(gateway)
            expect(console.row("Workers", "serves")).to_be_visible()
            total = console.figure("Free").inner_text()
            node.manager.stop()
            expect(console.page.get_by_text("The manager cannot be reached.", exact=True)).to_have_count(2)
            expect(console.page.get_by_text(re.compile(r"no manager for \d"))).to_be_visible()
            # The last state stays, and does not jump.
            expect(console.figure("Free")).to_have_text(total)
            fresh = open_console(gateway, "pages")
            expect(fresh.page.get_by_role("heading", name="The manager cannot be reached.")).to_be_visible()
            node.start_manager()
            expect(console.page.get_by_text("manager up")).to_be_visible()
            expect(console.row("Workers", "serves")).to_be_visible()
            expect(console.row("Events", "worker attached")).to_have_count(1)
            expect(fresh.map("Map of")).to_be_visible()
        # This gateway and its page are gone.
        expect(console.page.get_by_text("The gateway cannot be reached.")).to_be_visible()


def hide(console, hidden):
    console.page.evaluate(
        """(hidden) => {
            Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


def test_a_hidden_tab_asks_nothing(console):
    expect(console.panel("Pool")).to_be_visible()
    hide(console, True)
    console.page.wait_for_timeout(500)
    asked = len(console.requests)
    console.page.wait_for_timeout(3000)
    assert len(console.requests) == asked
    hide(console, False)
    wait_until(lambda: console.page.wait_for_timeout(100) or len(console.requests) > asked + 3, PATIENCE, "it asks again")


def test_one_request_of_a_kind_at_a_time(console):
    expect(console.panel("Pool")).to_be_visible()
    waiting, hold = [], [True]
    console.page.route("**/console/api/sequences", lambda route: waiting.append(route) if hold[0] else route.continue_())
    wait_until(lambda: console.page.wait_for_timeout(100) or waiting, PATIENCE, "a request waits")
    console.page.wait_for_timeout(3500)
    assert len(waiting) == 1
    hold[0] = False
    waiting[0].continue_()
    asked = len(console.requests)
    wait_until(
        lambda: console.page.wait_for_timeout(100) or any("api/sequences" in url for url in console.requests[asked:]),
        PATIENCE, "the next one follows")  # fmt: skip


def test_nothing_moves_while_the_page_asks(console, gateway, node):
    """The sum of what the browser calls layout shifts, after the first second."""
    with sequence(gateway, node):
        for view, title in (("overview", "Slowest sequences"), ("pages", "Page under the cursor"), ("ask", "Prompt")):
            console.open(view)
            expect(console.panel(title)).to_be_visible()
            console.page.wait_for_timeout(1000)
            console.page.evaluate(
                """() => {
                    window.shifts = 0;
                    new PerformanceObserver((list) => {
                        for (const one of list.getEntries()) window.shifts += one.value;
                    }).observe({ type: "layout-shift" });
                }"""
            )
            console.page.wait_for_timeout(4000)
            assert console.page.evaluate("window.shifts") < 0.01, view


def test_large_pools_are_drawn_whole(open_console, long_model):
    with Node(pool="512MiB") as node:
        node.start_worker(model=long_model)
        with Gateway(node, flags=[f"--manager={node.manager_address}"]) as gateway:
            pages = node.pool().total_pages
            assert pages >= 65_536
            with sequence(gateway, node, words=1, tokens=60_000):
                console = open_console(gateway, "pages?by=owner")
                board = console.map(f"Map of {pages:,} pages")
                box = board.locator("canvas").bounding_box()
                assert box["height"] < 900 and box["width"] > 900
                board.press("ArrowRight")
                board.press("End")
                expect(board.locator("[aria-live]")).to_have_text(f"Page {pages - 1}, free")
                wait_until(lambda: console.drawn(board.locator("canvas")) >= 2, PATIENCE, "its pages have a colour")


