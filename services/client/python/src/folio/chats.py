"""A chat's messages, tools and arguments, checked, as the protocol's message."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypedDict, Union

from folio import checks
from folio.v1 import inference_pb2

ChatTurn = Union[Mapping[str, Any], tuple[str, str]]
"""{"role": ..., "content": ..., and further fields that the template reads, such as tool_calls}, or the first two as a
pair. A message with further fields may lack content or have None, which is no text."""


def _turn(at: int, turn: object) -> inference_pb2.ChatMessage:
    name = f"chat[{at}]"
    if isinstance(turn, Mapping):
        fields = {key: value for key, value in turn.items() if key not in ("role", "content")}
        if "role" not in turn or ("content" not in turn and not fields):
            raise ValueError(f"{name} must have role and content, has {', '.join(map(str, turn)) or 'nothing'}")
        role, content = turn["role"], turn.get("content", "")
        content = "" if content is None and fields else content
    elif isinstance(turn, Sequence) and not isinstance(turn, (str, bytes)) and len(turn) == 2:
        role, content = turn
        fields = {}
    else:
        raise TypeError(f"{name} must be a dict of role and content or a pair of them, not {turn!r}")
    return inference_pb2.ChatMessage(
        role=checks.text(f"{name}.role", role),
        content=checks.text(f"{name}.content", content),
        fields=_json(name, fields) if fields else "",
    )


def _json(name: str, value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name} cannot be written as JSON: {error}") from None


class ChatArguments(TypedDict, total=False):
    """Values for a chat's template besides the messages."""

    tools: Iterable[Mapping[str, Any]] | None
    template_arguments: Mapping[str, Any] | None


def chat_arguments(
    tools: Iterable[Mapping[str, Any]] | None, template_arguments: Mapping[str, Any] | None
) -> ChatArguments:
    """The two by their names."""
    return {"tools": tools, "template_arguments": template_arguments}


def chat_message(turns: object, more: ChatArguments) -> inference_pb2.Chat:
    """The chat of these messages."""
    if isinstance(turns, (str, bytes, Mapping)) or not isinstance(turns, Iterable):
        raise TypeError(f"chat must be a list of messages, not {checks.kind_of(turns)}")
    chat = inference_pb2.Chat(messages=[_turn(at, turn) for at, turn in enumerate(turns)])
    if not chat.messages:
        raise ValueError("chat is empty")
    tools, arguments = more.get("tools"), more.get("template_arguments")
    if tools is not None:
        if isinstance(tools, (str, bytes, Mapping)) or not isinstance(tools, Iterable):
            raise TypeError(f"tools must be a list of dicts, not {checks.kind_of(tools)}")
        chat.tools = _json("tools", list(tools))
    if arguments is not None:
        if not isinstance(arguments, Mapping):
            raise TypeError(f"template_arguments must be a dict, not {checks.kind_of(arguments)}")
        chat.template_arguments = _json("template_arguments", dict(arguments))
    return chat
