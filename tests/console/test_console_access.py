"""The console for everyone: names, headings, contrast, keys, narrow windows, and a strict policy for contents."""

import re

import pytest
from console import sequence
from node import PATIENCE, wait_until
from playwright.sync_api import expect

VIEWS = ["overview", "pages?by=owner", "pages?by=score", "sequences", "sequence", "ask"]

# It lists what is wrong with the names and the structure of a page.
STRUCTURE = """() => {
    const wrong = [];
    const label = (one) => one.labels?.length ? [...one.labels].map((text) => text.textContent).join(" ") : "";
    const name = (one) => (one.getAttribute("aria-label") || label(one) || one.textContent ||
        (one.getAttribute("aria-labelledby") || "").split(" ").map((id) => document.getElementById(id)?.textContent || "").join(" ")).trim();
    for (const one of document.querySelectorAll("a, button, input, select, textarea, section, nav, [tabindex], [role], canvas[role]")) {
        const own = one.matches("[role=alert], [role=status]");
        if (!own && !name(one)) wrong.push("no name: " + one.outerHTML.slice(0, 120));
    }
    const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
    for (const id of ids) if (ids.filter((other) => other === id).length > 1) wrong.push("twice: " + id);
    for (const one of document.querySelectorAll("[aria-labelledby], [aria-describedby], label[for]")) {
        const named = [one.getAttribute("aria-labelledby"), one.getAttribute("aria-describedby"), one.getAttribute("for")];
        for (const id of named.filter(Boolean)) if (!document.getElementById(id)) wrong.push("dangling: " + id);
    }
    let last = 0;
    for (const one of document.querySelectorAll("h1, h2, h3, h4")) {
        const level = Number(one.tagName[1]);
        if (level > last + 1) wrong.push(`h${level} behind h${last}: ${one.textContent}`);
        last = level;
    }
    if (document.querySelectorAll("h1").length !== 1) wrong.push("not one h1");
    for (const mark of ["header", "nav", "main"])
        if (document.querySelectorAll(mark).length !== 1) wrong.push("not one " + mark);
    for (const table of document.querySelectorAll("table"))
        if ([...table.querySelectorAll("thead th")].some((one) => one.scope !== "col")) wrong.push("headers without a scope");
    for (const one of document.querySelectorAll("[style]"))
        if (one.closest("[data-html]")) wrong.push("style in the text");
    if (!document.documentElement.lang || !document.title) wrong.push("no language or title");
    return wrong;
}"""

# It lists text whose contrast with what lies below it is less than 4.5, or 3 where it is large. Disabled controls are left out.
CONTRAST = """() => {
    const parse = (text) => (text.match(/[\\d.]+/g) || []).map(Number);
    const light = ([r, g, b]) => {
        const [x, y, z] = [r, g, b].map((one) => one / 255).map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
        return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const below = (one) => {
        for (let at = one; at; at = at.parentElement) {
            const colour = parse(getComputedStyle(at).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
        }
        return [255, 255, 255];
    };
    const wrong = new Set();
    let seen = 0;
    for (const one of document.querySelectorAll("body *")) {
        const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
        const box = one.getBoundingClientRect();
        const off = one.closest(":disabled, option, .hidden, noscript") || box.width < 2 || getComputedStyle(one).visibility === "hidden";
        if (!(own || one.matches("input, select, textarea")) || off) continue;
        const style = getComputedStyle(one);
        const [high, low] = [light(parse(style.color)), light(below(one))].sort((a, b) => b - a);
        const ratio = (high + 0.05) / (low + 0.05);
        seen += 1;
        if (ratio < (parseFloat(style.fontSize) >= 24 ? 3 : 4.5)) wrong.add(`${ratio.toFixed(2)}: ${one.className || one.tagName} ${style.color}`);
    }
    return seen > 15 ? [...wrong] : ["hardly any text was found"];
}"""


# Each test has one of its own, because a sequence may end while a slow test runs.
@pytest.fixture
def busy(gateway, node):
    with sequence(gateway, node, label="busy") as one:
        wait_until(lambda: node.sequence(one).plans, PATIENCE, "something was evicted")
        yield one


def show(console, view, one):
    """Opens a view, and waits until it has its data."""
    console.open(f"sequences/{one}" if view == "sequence" else view)
    wanted = {
        "overview": lambda: console.row("Slowest sequences", "busy"), "sequences": lambda: console.row("Open sequences", "busy"),
        "sequence": lambda: console.map("Kept positions"), "ask": lambda: console.panel("Side B"),
    }.get(view, lambda: console.map("Map of"))()  # fmt: skip
    expect(wanted).to_be_visible()


def ask(console):
    console.page.get_by_label("Most tokens").fill("8")
    console.page.get_by_label("Most tokens").blur()
    console.page.get_by_role("button", name="Ask both").click()
    for letter in "AB":
        expect(console.panel(f"Side {letter}").locator(".tag")).to_have_text("complete")


@pytest.mark.parametrize("view", VIEWS)
def test_names_headings_and_contrast(open_console, gateway, busy, view):
    for scheme in ("light", "dark"):
        console = open_console(gateway, color_scheme=scheme)
        show(console, view, busy)
        if view == "ask":
            ask(console)
        assert console.page.evaluate(STRUCTURE) == []
        assert console.page.evaluate(CONTRAST) == [], scheme


def test_the_form_for_a_key_has_names_and_contrast(open_console, gateway, tmp_path, node):
    console = open_console(gateway)
    console.page.route("**/console/api/*", lambda route: route.fulfill(status=401, json={"error": {"message": "no key", "param": None}}))
    console.page.reload()
    expect(console.page.get_by_label("API key")).to_be_visible()
    assert console.page.evaluate(STRUCTURE) == []


@pytest.mark.parametrize("view", VIEWS)
def test_a_narrow_window_needs_no_scrolling_aside(open_console, gateway, busy, view):
    console = open_console(gateway, width=360, height=740, has_touch=True, is_mobile=True)
    show(console, view, busy)
    if view == "ask":
        ask(console)
    assert console.page.evaluate("document.documentElement.scrollWidth") <= 360
    for name in ("Overview", "Pages", "Sequences", "Ask"):
        expect(console.page.get_by_role("navigation").get_by_role("link", name=name)).to_be_in_viewport()


@pytest.mark.parametrize("view", VIEWS)
def test_keys_reach_everything_and_show_where_they_are(console, busy, view):
    show(console, view, busy)
    # A change of the view has moved the focus. Keys begin at the top of a page that is loaded.
    console.page.reload()
    show(console, view, busy)
    reached, unseen = set(), []
    for step in range(120):
        console.page.keyboard.press("Tab")
        here, outline = console.page.evaluate(
            """() => {
                const all = [...document.querySelectorAll("a, button, input, select, textarea, [tabindex='0']")];
                const one = document.activeElement;
                const ring = one.closest("label:has(:focus-visible)") || one;
                return [all.indexOf(one), getComputedStyle(ring).outlineStyle];
            }"""
        )
        if here < 0 or here in reached:
            break
        reached.add(here)
        if outline == "none":
            unseen.append(console.page.evaluate("document.activeElement.outerHTML.slice(0, 100)"))
        if step == 0:
            assert console.page.evaluate("document.activeElement.textContent") == "Skip to the contents"
    assert not unseen, unseen
    # One radio button of a group is reached by Tab, and the others by arrows.
    wanted = console.page.evaluate(
        """() => [...document.querySelectorAll("a, button, input, select, textarea, [tabindex='0']")]
            .map((one, index) => [one, index]).filter(([one]) => !one.matches(":disabled") && (one.type !== "radio" || one.checked))
            .filter(([one]) => !one.closest("tbody") && !one.closest(".owner-list"))
            .map(([, index]) => index)"""
    )
    assert set(wanted) <= reached, [wanted, reached]


def test_the_skip_link_and_new_views_move_the_focus(console):
    expect(console.panel("Pool")).to_be_visible()
    console.page.keyboard.press("Tab")
    console.page.keyboard.press("Enter")
    assert console.page.evaluate("document.activeElement.tagName") == "H1"
    console.page.get_by_role("link", name="Pages").press("Enter")
    expect(console.page.get_by_role("heading", name="Pages", level=1)).to_be_focused()
    expect(console.page).to_have_title("Pages · Folio console")
    expect(console.page.get_by_role("link", name="Pages")).to_have_attribute("aria-current", "page")


def test_the_colour_scheme_follows_the_system_or_the_switch(open_console, gateway):
    console = open_console(gateway, color_scheme="dark")
    background = lambda: console.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")  # noqa: E731
    dark = background()
    console.page.emulate_media(color_scheme="light")
    light = background()
    assert dark != light
    switch = console.page.get_by_role("button", name=re.compile("Colour scheme"))
    switch.click()
    assert background() == light
    switch.click()
    assert background() == dark
    console.page.reload()
    expect(console.panel("Pool")).to_be_visible()
    assert background() == dark
    switch.click()
    assert background() == light


def test_motion_is_reduced_on_demand(open_console, gateway):
    console = open_console(gateway, "ask?prompt=Count.&max=400&temperature=1", reduced_motion="reduce")
    console.page.get_by_role("button", name="Ask both").click()
    # In one look, because the page draws the answer again with each token.
    look = "() => { const caret = document.querySelector('.caret'); return caret && getComputedStyle(caret).animationName }"
    assert console.page.wait_for_function(look).json_value() == "none"
    console.page.get_by_role("button", name="Stop").click()


def test_the_policy_for_contents_is_strict(gateway, console):
    page = gateway.get("/console/")
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy
    text = page.body.decode()
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]* src=)", text)
    assets = re.findall(r'(?:src|href)="(/console/assets/[^"]+)"', text)
    assert len(assets) == 2
    for path in assets:
        assert "immutable" in gateway.get(path).headers["Cache-Control"]
    # The watch works: what the policy forbids is seen.
    console.page.evaluate("document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\">')")
    wait_until(lambda: console.page.evaluate("violations.splice(0).length"), PATIENCE, "a violation is noticed")
    console.complaints.clear()
