"""Tokenizer and chat template of the oracle, exactly, through the service."""

import json

import pytest
from oracle_cases import ORACLE
from stubs import inference_pb2

TEXTS = json.loads((ORACLE / "tokenizer.json").read_text())
CHATS = json.loads((ORACLE / "chat.json").read_text())


def chat(messages):
    return inference_pb2.Input(
        chat=inference_pb2.Chat(messages=[inference_pb2.ChatMessage(**message) for message in messages])
    )


def test_the_oracle_holds_what_is_compared():
    assert len(TEXTS) >= 24 and len(CHATS) >= 2


@pytest.mark.parametrize("case", TEXTS, ids=lambda case: ascii(case["text"])[:40])
def test_tokenize_and_back(bfloat16, case):
    request = inference_pb2.TokenizeRequest(input=inference_pb2.Input(text=case["text"]))
    result = bfloat16.stub.Tokenize(request, timeout=60)
    assert list(result.ids) == case["ids"]
    assert b"".join(result.pieces) == case["text"].encode()
    back = bfloat16.stub.Detokenize(inference_pb2.DetokenizeRequest(ids=case["ids"]), timeout=60)
    assert back.text == case["text"]


@pytest.mark.parametrize("case", CHATS, ids=lambda case: f"{len(case['messages'])}-messages")
def test_chat_template(bfloat16, case):
    result = bfloat16.stub.Tokenize(inference_pb2.TokenizeRequest(input=chat(case["messages"])), timeout=60)
    assert result.text == case["text"]
    text = inference_pb2.TokenizeRequest(input=inference_pb2.Input(text=case["text"]))
    assert list(result.ids) == list(bfloat16.stub.Tokenize(text, timeout=60).ids)


def test_special_tokens_can_be_left_out(bfloat16):
    ids = bfloat16.stub.Tokenize(
        inference_pb2.TokenizeRequest(input=inference_pb2.Input(text="<|im_start|>Hello<|im_end|>")), timeout=60
    ).ids
    request = inference_pb2.DetokenizeRequest(ids=ids, skip_special=True)
    assert bfloat16.stub.Detokenize(request, timeout=60).text == "Hello"
