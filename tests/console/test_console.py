"""The views of the console show what the manager says: overview, pages, sequences."""

import re

import pytest
from console import sequence, still
from node import PATIENCE, wait_until
from playwright.sync_api import expect
from stubs import admin_pb2


@pytest.fixture
def one(gateway, node):
    """The id of a sequence that has evicted."""
    with sequence(gateway, node) as sequence_id:
        wait_until(lambda: node.sequence(sequence_id).plans, PATIENCE, "something was evicted")
        yield sequence_id


@pytest.fixture
def stopped(node, one):
    """The id of one that makes no step."""
    with still(node, one):
        yield one


def pages_of(node):
    """(state, sequence, layer) of each page."""
    runs = [run for part in node.admin.ListPages(admin_pb2.ListPagesRequest(layers=True)) for run in part.runs]
    return [(run.state, run.sequence_id, run.layer) for run in runs for _ in range(run.pages)]


def number(text):
    return int(text.replace(",", ""))


def test_the_overview_agrees_with_the_manager(console, node, one):
    row = console.row("Slowest sequences", "night shift")
    expect(row).to_contain_text("paged_eviction")
    expect(row.get_by_role("link")).to_have_attribute("href", f"#/sequences/{one}")

    def agrees():
        pool = node.pool()
        shown = [console.figure(label).inner_text() for label in ("Held", "Free", "Quarantined", "Sequences")]
        return [number(text) for text in shown] == [pool.held_pages, pool.free_pages, 0, 1]

    wait_until(agrees, PATIENCE, "the figures of the pool are those of the manager")
    expect(console.row("Workers", "w1")).to_contain_text("serves")
    expect(console.row("Tenants", "(none)")).to_have_text(re.compile(r"\(none\)0011?"))
    expect(console.page.get_by_text("manager up")).to_be_visible()


def test_the_charts_show_progress_and_evictions(console, gateway, node):
    with sequence(gateway, node, tokens=6000) as _:
        speed = console.panel("Tokens per second").locator(".legend > span").filter(has_text="decoded").locator("b")
        evicted = console.panel("Evicted pages per second").locator(".legend b")
        wait_until(lambda: float(speed.inner_text().replace("–", "0")) > 0, PATIENCE, "tokens are decoded")
        wait_until(lambda: float(evicted.inner_text().replace("–", "0")) > 0, PATIENCE, "pages are evicted")
        for title in ("Pages", "Tokens per second", "Evicted pages per second"):
            picture = console.panel(title)
            expect(picture.get_by_role("img")).to_have_attribute("aria-label", re.compile("over five minutes, now: "))
            assert console.drawn(picture.locator("canvas")) > 4, title


def test_events_are_filtered_by_a_link(console, open_console, gateway, one):
    events = console.panel("Events")
    expect(console.row("Events", "worker attached")).to_be_visible()
    expect(console.row("Events", "sequence opened")).to_have_count(0)
    wait_until(lambda: "pages evicted" in events.get_by_label("Kind").inner_text(), PATIENCE, "the kind can be chosen")
    events.get_by_label("Kind").select_option("EVENT_KIND_PAGES_EVICTED")
    expect(console.row("Events", "pages evicted").filter(has_text=f"{one}paged_eviction").first).to_be_visible()
    expect(console.row("Events", "worker attached")).to_have_count(0)
    again = open_console(gateway, console.page.url.partition("#/")[2])
    expect(again.row("Events", "pages evicted").first).to_be_visible()
    expect(again.row("Events", "worker attached")).to_have_count(0)


def test_a_page_is_explained_to_pointer_and_keys(console, node, stopped):
    expected = pages_of(node)
    console.open("pages?by=owner")
    pages = console.map("Map of 8,192 pages")
    held = next(page for page, (state, _, _) in enumerate(expected) if state == admin_pb2.PAGE_STATE_HELD)
    # A page is explained at once, by what is known then.
    expect(console.panel("Pages by sequence")).to_contain_text("night shift")
    pages.focus()
    for _ in range(held + 1):
        pages.press("ArrowRight")
    said = f"Page {held}, held, sequence {stopped}, night shift, layer {expected[held][2]}"
    expect(pages.locator("[aria-live]")).to_contain_text(said)
    explained = console.panel("Page under the cursor")
    expect(explained).to_contain_text("night shift")
    pages.press("End")
    expect(pages.locator("[aria-live]")).to_have_text("Page 8191, free")
    pages.hover(position={"x": 2, "y": 2})
    expect(explained.locator("dd").first).to_have_text("0")
    pages.press("Home")
    for _ in range(held):
        pages.press("ArrowRight")
    pages.press("Enter")
    expect(console.page).to_have_url(re.compile(f"#/sequences/{stopped}$"))


def test_pages_have_the_colours_of_the_legend(console, node, stopped):
    expected = pages_of(node)
    held = next(page for page, (state, _, _) in enumerate(expected) if state == admin_pb2.PAGE_STATE_HELD)
    free = next(page for page, (state, _, _) in enumerate(expected) if state == admin_pb2.PAGE_STATE_FREE)
    console.open("pages?by=owner")
    canvas = console.map("Map of").locator("canvas")
    box = canvas.bounding_box()
    # The rows below are full, so the cell follows from the size of the map.
    cell = next(side for side in range(18, 1, -1) if round(box["height"] / side) == -(-8192 // round(box["width"] / side)))
    columns = round(box["width"] / cell)

    def colour(page):
        return console.pixel(canvas, page % columns * cell + cell / 2 - 1, page // columns * cell + cell / 2 - 1)

    def legend(panel, text):
        swatch = console.panel(panel).locator(":is(li, .legend > span)").filter(has_text=text).locator(".swatch")
        return swatch.evaluate("(one) => getComputedStyle(one).backgroundColor")

    wait_until(lambda: colour(held) == legend("Pages by sequence", f"Sequence {stopped}"), PATIENCE, "the owner's colour")
    assert colour(free) == legend("Colours", "free") != colour(held)
    console.page.get_by_label("State", exact=True).check()
    expect(console.page).to_have_url(re.compile("by=state"))
    wait_until(lambda: colour(held) == legend("Colours", "held"), PATIENCE, "the colour of held pages")
    for by in ("Layer", "Age", "Score"):
        console.page.get_by_label(by, exact=True).check()
        wait_until(lambda: colour(held) not in (colour(free), legend("Colours", "free")), PATIENCE, by)
        assert console.drawn(canvas) >= (3 if by == "Age" else 20), by


def test_a_pause_holds_the_map(console, gateway, node):
    with sequence(gateway, node) as one:
        console.open("pages")
        wait_until(lambda: node.sequence(one).plans, PATIENCE, "something was evicted")
        with still(node, one):
            held = f"{node.pool().held_pages:,} of 8,192 pages held"
            expect(console.page.get_by_text(held)).to_be_visible()
            console.page.get_by_role("button", name="Pause").click()
            expect(console.page.get_by_role("button", name="Continue")).to_have_attribute("aria-pressed", "true")
    asked = len([url for url in console.requests if "/pages" in url])
    console.page.wait_for_timeout(2500)
    expect(console.page.get_by_text(held)).to_be_visible()
    assert len([url for url in console.requests if "/pages" in url]) <= asked + 1
    console.page.get_by_role("button", name="Continue").click()
    expect(console.page.get_by_text("0 of 8,192 pages held")).to_be_visible()


def test_a_sequence_shows_what_each_layer_keeps(console, gateway, node):
    with sequence(gateway, node, label="reading") as one:
        # All plans after the compaction free as much, so the page may show a later one than this asks for.
        wait_until(lambda: len(node.sequence(one).plans) > 1, PATIENCE, "something was evicted while it decodes")
        with still(node, one) as detail:
            console.open(f"sequences/{one}")
            facts = console.panel(f"Sequence {one}, “reading”")
            expect(facts).to_contain_text(f"{detail.sequence.prompt_tokens} tokens")
            expect(facts).to_contain_text("128 tokens")
            expect(facts).to_contain_text(f"{detail.sequence.held_pages:,} pages")
            kept = console.map("Kept positions: 30 layers")
            kept.focus()
            for key in ("ArrowRight", "ArrowDown", "ArrowDown", *["PageDown"] * 4):
                kept.press(key)
            there = any(part.begin <= 64 < part.end for part in detail.layers[2].kept)
            said = f"Layer 2, position 64 of the prompt: {'kept' if there else 'evicted'}."
            expect(console.page.locator("[aria-live]").filter(has_text=said)).to_have_count(1)
            # Whether its compaction is still among the newest plans depends on the speed of the machine.
            plan = console.page.get_by_role("group", name="Plans", exact=True).get_by_role("row").nth(1)
            expect(plan).to_contain_text(str(detail.plans[-1].freed_pages))
            canvas = kept.locator("canvas")
            before = canvas.evaluate("(one) => one.toDataURL()")
            plan.get_by_role("button").click()
            wait_until(lambda: canvas.evaluate("(one) => one.toDataURL()") != before, PATIENCE, "the losses are shown")
    expect(console.page.get_by_text("ended; this is its last state")).to_be_visible()
    expect(console.page.get_by_text("drop of pages", exact=True).first).to_be_visible()


def test_sequences_are_listed_filtered_and_sorted(console, gateway, node):
    with sequence(gateway, node, label="first one"), sequence(gateway, node, label="second", words=2, policy="full", budget=None):
        console.open("sequences?sort=length")
        names = console.page.get_by_role("group", name="Open sequences").locator("tbody td:nth-child(2)")
        expect(names).to_have_text(["second", "first one"])
        console.page.get_by_role("button", name="Length").click()
        expect(names).to_have_text(["first one", "second"])
        expect(console.page.locator("th[aria-sort]")).to_have_attribute("aria-sort", "descending")
        console.page.get_by_label("Filter").fill("FULL")
        expect(names).to_have_text(["second"])
        expect(console.page).to_have_url(re.compile("filter=FULL.*down=1"))
    console.open("sequences/999999")
    expect(console.page.get_by_text("Sequence 999999 is not open.")).to_be_visible()
