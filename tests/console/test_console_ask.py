"""The view Ask: one prompt under two settings, which a link repeats."""

import json
import re
import urllib.parse

import pytest
from gateway import events
from node import PATIENCE, wait_until
from playwright.sync_api import expect

QUESTION = (
    "The keeper wrote the number of the locker into his book, and the number was 4718. " + "The sea was grey that day. " * 20
    + "Which number did the locker have?"
)  # fmt: skip


def link(prompt=QUESTION, **more):
    fields = {"a.policy": "full", "b.policy": "snap_kv", "b.budget": "0.25", "max": 24, "seed": 5, "prompt": prompt, **more}
    return "ask?" + urllib.parse.urlencode(fields)


def side(console, letter):
    return console.panel(f"Side {letter}")


def answer(console, letter):
    return console.page.get_by_role("log", name=f"Answer {letter}")


def figure(console, letter, label):
    return side(console, letter).locator(".side-figures > div").filter(has_text=label).locator(".figure-value")


def ask(console):
    console.page.get_by_role("button", name="Ask both").click()
    for letter in "AB":
        expect(side(console, letter).locator(".tag")).to_have_text(re.compile("complete|failed|stopped"))


def direct(gateway, prompt=QUESTION, **cache):
    """(text, object `cache`) of the same request without the page."""
    answer = gateway.post(
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": prompt}], "max_tokens": 24, "temperature": 0, "seed": 5, "stream": True,
         "cache": {"report_kept": True, **cache}},
    )  # fmt: skip
    choices = [choice for chunk in events(answer.body) for choice in chunk["choices"]]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    return text, next(choice["cache"] for choice in choices if "cache" in choice)


def test_both_sides_answer_as_the_api_does(console, gateway, open_console):
    console.open(link())
    ask(console)
    expected = {
        "A": direct(gateway, policy="full"),
        "B": direct(gateway, policy="snap_kv", budget=0.25, mode="synchronous"),
    }
    for letter, (text, cache) in expected.items():
        expect(answer(console, letter)).to_have_text(text.strip())
        expect(figure(console, letter, "Stayed")).to_have_text(f"{cache['resident_tokens']:,}")
        expect(figure(console, letter, "Evicted")).to_have_text(f"{cache['evicted_tokens']:,}")
        expect(figure(console, letter, "Speed")).not_to_have_text("–")  # while there is no second token
        assert float(figure(console, letter, "Speed").inner_text().replace(",", "")) > 0
    assert expected["B"][1]["evicted_tokens"] > 0
    # The address is the link: another window repeats the answers.
    again = open_console(gateway, console.page.url.partition("#/")[2])
    expect(again.page.get_by_label("Prompt (Ctrl+Enter asks)")).to_have_value(QUESTION)
    again.page.get_by_label("Prompt (Ctrl+Enter asks)").press("Control+Enter")
    for letter, (text, _) in expected.items():
        expect(answer(again, letter)).to_have_text(text.strip())


def test_tokens_are_shaded_by_the_layers_that_kept_them(console, gateway):
    console.open(link(**{"b.policy": "key_diff", "b.budget": "0.35"}))
    ask(console)
    _, cache = direct(gateway, policy="key_diff", budget=0.35, mode="synchronous")
    texts = gateway.post("/tokenize", {"messages": [{"role": "user", "content": QUESTION}], "return_token_strs": True}).json()
    strings = texts["token_strs"]
    counts = [sum(begin <= at < end for layer in cache["kept"] for begin, end in layer) for at in range(len(strings))]
    layers = len(cache["kept"])
    assert layers == 30 and min(counts) == 0 and max(counts) == layers
    tokens = console.map("Tokens of the prompt, side B").locator(".token")
    expect(tokens).to_have_count(len(strings))
    shown = tokens.evaluate_all("(all) => all.map((one) => [one.textContent, one.className])")
    assert [text.replace("↵\n", "\n") for text, _ in shown] == strings
    levels = [int(re.search(r"\bk(\d)\b", name)[1]) for _, name in shown]
    assert [level == 0 for level in levels] == [count == 0 for count in counts]
    assert [level == 8 for level in levels] == [count == layers for count in counts]
    expect(console.map("Tokens of the prompt, side A").locator(".token.k8")).to_have_count(len(strings))
    at = next(index for index, count in enumerate(counts) if 0 < count < layers)
    said = f"Position {at}, {json.dumps(strings[at], ensure_ascii=False)}. Kept by A in 30 of 30 layers, by B in {counts[at]} of 30 layers."
    tokens.nth(at).hover()
    expect(console.page.locator(".token-text")).to_have_text(said)
    expect(console.page.locator(".token.at")).to_have_count(2)
    field = console.map("Tokens of the prompt, side B")
    field.press("Home")
    for _ in range(3):
        field.press("ArrowRight")
    expect(console.page.locator(".token-text")).to_contain_text("Position 3, ")
    expect(console.page.locator("[aria-live]").filter(has_text="Position 3, ")).to_have_count(1)
    kept = console.map("Kept positions, side B: 30 layers")
    assert console.drawn(kept.locator("canvas")) > 4


def test_sides_may_take_turns(console, node):
    console.open(link(order="turns", max=200, prompt="Count from one to a thousand."))
    console.page.get_by_role("button", name="Ask both").click()
    expect(side(console, "B").locator(".tag")).to_have_text("waits for its turn")
    assert len(wait_until(node.sequences, PATIENCE, "side A runs")) == 1
    for letter in "AB":
        expect(side(console, letter).locator(".tag")).to_have_text("complete")


def test_stop_ends_both_sides(console, node):
    console.open(link(prompt="Count from one to a thousand.", max=3000, temperature=1))
    console.page.get_by_role("button", name="Ask both").click()
    wait_until(lambda: len(node.sequences()) == 2, PATIENCE, "both sides run")
    expect(answer(console, "A")).to_have_attribute("aria-busy", "true")
    console.page.get_by_role("button", name="Stop").click()
    for letter in "AB":
        expect(side(console, letter).locator(".tag")).to_have_text(re.compile("stopped|complete"))
        expect(answer(console, letter)).to_have_attribute("aria-busy", "false")
    expect(console.page.get_by_role("button", name="Ask both")).to_be_enabled()
    node.assert_all_free()


def test_an_error_stands_where_it_belongs(console):
    console.open(link(**{"a.policy": "key_diff", "a.budget": "1", "b.policy": "snap_kv", "b.with": "window=x"}))
    ask(console)
    budget = side(console, "A").locator(".budget")
    expect(budget.get_by_role("alert")).to_contain_text("budget")
    expect(budget.get_by_label("Budget of a layer")).to_have_attribute("aria-invalid", "true")
    policy = side(console, "B").get_by_label("Policy")
    expect(policy).to_have_attribute("aria-invalid", "true")
    described = policy.get_attribute("aria-describedby")
    expect(console.page.locator(f"[id='{described}']")).to_contain_text("window")
    # The other side is not touched: with a right budget it answers, and its error goes away.
    side(console, "A").get_by_label("Budget of a layer").fill("64")
    ask(console)
    expect(side(console, "A").locator(".tag")).to_have_text("complete")
    expect(budget.get_by_role("alert")).to_have_count(0)
    expect(side(console, "B").locator(".tag")).to_have_text("failed")


def test_other_errors_stand_in_the_answer(console):
    console.open(link(prompt="word " * 9000, max=10))
    ask(console)
    for letter in "AB":
        expect(side(console, letter).get_by_role("alert")).to_contain_text(re.compile("context|tokens"))


@pytest.mark.parametrize("letter", ["A", "B"])
def test_the_sides_are_independent_and_are_in_the_link(console, letter):
    console.open(link(**{"a.policy": "query_diff", "b.policy": "query_diff"}))
    panel, other = side(console, letter), side(console, "BA"["AB".index(letter)])
    before = other.get_by_label("Budget of a layer").input_value()
    panel.get_by_label("tokens", exact=True).check()
    slider = panel.get_by_label("Budget in tokens")
    slider.focus()
    slider.press("ArrowRight")
    expect(panel.get_by_label("Budget of a layer")).to_have_value("272")
    panel.get_by_label("Decides").select_option("shared")
    panel.get_by_label("Its parameters").fill("share=0.5")
    query = f"{letter.lower()}.policy=query_diff&{letter.lower()}.with=share%3D0.5&{letter.lower()}.budget=272&{letter.lower()}.layers=shared"
    expect(console.page).to_have_url(re.compile(re.escape(query)))
    assert other.get_by_label("Budget of a layer").input_value() == before
    panel.get_by_label("Policy").select_option("full")
    expect(panel.get_by_label("Budget of a layer")).to_be_disabled()
    expect(panel.get_by_label("Its parameters")).to_have_value("")


def test_answers_outlive_a_look_at_another_view(console):
    console.open(link())
    ask(console)
    said = answer(console, "A").inner_text()
    console.page.get_by_role("link", name="Pages").click()
    expect(console.map("Map of")).to_be_visible()
    console.page.get_by_role("link", name="Ask").click()
    expect(answer(console, "A")).to_have_text(said)
    expect(console.page).to_have_url(re.compile(r"a\.policy=full.*seed=5"))
