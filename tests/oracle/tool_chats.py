"""Writes tool_chats.json: chats with tools, calls and arguments, as the renderer of Hugging Face's transformers writes them.

    python tests/oracle/tool_chats.py > tests/oracle/tool_chats.json

Any environment with `transformers` will do, such as that of tests/eval. No model is needed.
"""

import json
import pathlib
import sys

from transformers.utils.chat_template_utils import render_jinja_template

TEMPLATE = (pathlib.Path(__file__).parent / "tool_template.jinja").read_text()

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a town, in °C & \"words\"",
        "parameters": {
            "type": "object",
            "properties": {
                "town": {"type": "string", "enum": ["Ulm", "Köln", "<other>"]},
                "days": {"type": "integer", "minimum": 0, "default": 1.0},
            },
            "required": ["town"],
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "clock", "parameters": {"type": "object", "properties": {}}, "strict": None}}


def call(name, arguments, number="1"):
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


ASKED = [{"role": "user", "content": "How is Ulm?"}]
CALLED = [
    *ASKED,
    {"role": "assistant", "content": "", "tool_calls": [call("weather", {"town": "Ulm", "days": 2, "exact": True, "wind": None})]},
    {"role": "tool", "content": "{\"rain\": 0.5}", "tool_call_id": "call_1", "name": "weather"},
]
TWICE = [
    {"role": "system", "content": "Be brief."},
    *ASKED,
    {"role": "assistant", "content": "I look.", "tool_calls": [call("weather", {}), call("clock", "{\"zone\": \"CET\"}", "2")]},
    {"role": "tool", "content": "dry", "tool_call_id": "call_1"},
    {"role": "tool", "content": "noon", "tool_call_id": "call_2"},
    {"role": "user", "content": "Thanks", "name": "Ada"},
]
BARE = [*ASKED, {"role": "assistant", "content": "", "tool_calls": [{"name": "weather", "arguments": {"a": [1, -2.5, "é\n\\"], "b": {}}}]}]
THOUGHT = [*ASKED, {"role": "assistant", "content": "Dry.", "reasoning_content": "\n It is summer. \n"}, *ASKED]
DOCUMENTS = [{"title": "Ulm", "facts": ["a minster", {"height": 161.53}], "none": []}]

ROWS = [
    (ASKED, None, {}),
    (ASKED, [WEATHER], {}),
    (ASKED, [], {}),
    (CALLED, [WEATHER, CLOCK], {}),
    (CALLED, None, {}),
    (TWICE, [CLOCK], {}),
    (BARE, [WEATHER], {}),
    (THOUGHT, None, {"enable_thinking": True}),
    (THOUGHT, [CLOCK], {"enable_thinking": False}),
    (ASKED, None, {"documents": DOCUMENTS, "unused": {"x": [1]}}),
]


def rendered(messages, tools, arguments):
    texts, _ = render_jinja_template(
        conversations=[messages], tools=tools, chat_template=TEMPLATE, add_generation_prompt=True, **arguments
    )
    row = {"messages": messages}
    row |= {"tools": tools} if tools is not None else {}
    row |= {"arguments": arguments} if arguments else {}
    return row | {"text": texts[0]}


if __name__ == "__main__":
    json.dump([rendered(*row) for row in ROWS], sys.stdout, ensure_ascii=False, indent=1)
    print()
