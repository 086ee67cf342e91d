"""folioctl and the SDK's example against real processes; reflection and health as other tools see them."""

import itertools
import json
import signal
import subprocess

import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from node import BIN, PATIENCE, cache, tokens, wait_until
from oracle_cases import CASES, ORACLE
from stubs import inference_pb2

NEEDLES = next(case for case in CASES if case.name == "needles")
CHUNK = 512  # the most by default
CHAT = json.loads((ORACLE / "chat.json").read_text())[0]


def facts(text):
    """Lines of "name  value" as a dictionary."""
    return dict(line.split("  ", 1) for line in text.splitlines() if "  " in line)


def test_model(folioctl):
    table = {name: value.strip() for name, value in facts(folioctl("model")).items()}
    assert table["architecture"] == "llama" and table["layers"] == "30"
    assert table["parameters"].replace(",", "").isdigit()
    assert table["KV per token"] == "22.5 KiB" and table["context"] == "8,192 tokens"
    model = json.loads(folioctl("model", "--output", "json"))
    assert model["layout"]["num_kv_heads"] == 3 and model["kv_bytes_per_token"] == "23040"
    assert model["compute"] == "bfloat16"


def test_pools(folioctl, bfloat16):
    lines = folioctl("pools").splitlines()
    assert lines[0].split()[:2] == ["pool", "model"]
    assert "12.0 KiB" in lines[1]
    assert str(bfloat16.workers["worker"].pid) in lines[4]
    assert lines[-1].startswith("folio-manager 0.") and f", pid {bfloat16.manager.pid}, up " in lines[-1]
    pool = json.loads(folioctl("pools", "--output", "json"))["pools"][0]
    assert pool["free_pages"] == pool["total_pages"] and pool["page_bytes"] == "12288"


def test_health(folioctl, bfloat16):
    assert folioctl("health").count("serving") == 2
    assert json.loads(folioctl("health", "--address", bfloat16.manager_address, "--output", "json"))[0]["serving"]
    folioctl("health", "--address", f"unix:{bfloat16.path}/nobody.sock", code=3)


def test_generate(folioctl):
    answer = folioctl("generate", "--chat", "What is the capital of France?", "--max_tokens", 24)
    assert "Paris" in answer
    assert folioctl("generate", "-", "--chat", "--max_tokens", 24, input="What is the capital of France?") == answer
    lines = folioctl("generate", "--chat", "What is the capital of France?", "--max_tokens", 24, "--output", "json")
    events = [json.loads(line) for line in lines.splitlines()]
    assert "started" in events[0] and "finished" in events[-1]
    assert "".join(event.get("chunk", {}).get("text", "") for event in events) == answer.rstrip("\n")


def test_generate_repeats_with_a_seed(folioctl):
    arguments = ["generate", "Once upon a time", "--max-tokens", 20, "--temperature", 1, "--seed"]
    assert folioctl(*arguments, 5) == folioctl(*arguments, 5)
    assert len({folioctl(*arguments, seed) for seed in range(4)}) > 1


def test_generate_stats_map_and_logprobs(folioctl):
    text = " ".join(f"Line {number} says that the sea is wide." for number in range(60))
    output = folioctl(
        "generate", text, "--policy", "streaming_llm", "--budget", 64, "--max_tokens", 40, "--ignore_eos", "--stats", "--map",
        "--logprobs", 2, "--mode", "synchronous",
    )
    assert "streaming_llm, budget 64, sink 16, recent 16, synchronous" in output
    assert "finish reason        length" in output
    # All layers keep the same: the first page and the last tokens.
    bars = [line for line in output.splitlines() if line.startswith(" 0-29")]
    assert len(bars) == 1
    bar = bars[0].split("|")[1]
    assert bar[0] != " " and bar[-1] != " " and bar[len(bar) // 2] == " "
    assert len([line for line in output.splitlines() if line.count('"') >= 6]) == 40


def test_sequences_and_page_maps(folioctl, bfloat16):
    assert "No sequence is open" in folioctl("sequences")
    request = inference_pb2.GenerateRequest(
        input=tokens(NEEDLES.prompt), cache=cache("paged_eviction", 256, "pipelined"), max_tokens=6000, ignore_eos=True,
        label="look at me", tenant="team-7",
    )
    call = bfloat16.stub.Generate(request)
    try:
        sequence = next(event for event in call if event.HasField("started")).started.sequence_id
        next(event for event in call if event.HasField("chunk"))
        wait_until(lambda: bfloat16.sequence(sequence).sequence.evicted_tokens, PATIENCE, "the prompt is compacted")
        lines = folioctl("sequences").splitlines()
        assert lines[0].split()[:3] == ["sequence", "label", "tenant"]
        assert '"look at me"  "team-7"' in lines[1] and "paged_eviction" in lines[1] and "256" in lines[1]
        listed = json.loads(folioctl("sequences", "--output", "json"))["sequences"]
        assert [entry["sequence_id"] for entry in listed] == [str(sequence)]

        output = folioctl("sequence", sequence)
        assert facts(output)["tenant"].strip() == '"team-7"'
        rows = [line for line in output.partition("one character: ")[0].splitlines() if line.count("|") == 2]
        assert len(rows) == 30, output  # every layer keeps something else
        assert all("█" in row or "▓" in row or "▒" in row or "░" in row for row in rows)
        assert all(int(row.rsplit("|", 1)[1]) in (16, 17, 18) for row in rows)
        assert "the prompt ends at 1,445" in output
        assert folioctl("sequence", sequence, "--pages").count(".") > 30 * 16
        detail = json.loads(folioctl("sequence", sequence, "--output", "json"))
        assert len(detail["layers"]) == 30
    finally:
        call.cancel()
    wait_until(lambda: not bfloat16.sequences(), PATIENCE, "the sequence is closed")
    assert "NOT_FOUND" in folioctl("sequence", sequence, code=4)


def test_explain_changes_nothing(folioctl, bfloat16):
    """What the next eviction would take is what it takes."""
    request = inference_pb2.GenerateRequest(
        input=tokens(NEEDLES.prompt), cache=cache("paged_eviction", 256), max_tokens=6000, ignore_eos=True,
        report_evictions=True,
    )
    call = bfloat16.stub.Generate(request)
    try:
        sequence = next(event for event in call if event.HasField("started")).started.sequence_id
        wait_until(lambda: bfloat16.sequence(sequence).sequence.evicted_tokens, PATIENCE, "the prompt is compacted")
        table = folioctl("explain", sequence)
        assert "paged_eviction, budget 256" in table and table.count("page ") >= 30
        own = json.loads(folioctl("explain", sequence, "--output", "json"))
        assert len(own["layers"]) == 30
        # It is due for the moment between the token that fills a page and the drop.
        assert own["due"] == any(layer["resident_tokens"] >= 272 for layer in own["layers"])
        for layer in own["layers"]:
            scores = layer["scores"]
            # The lowest of those that are neither sink nor recent.
            assert layer["drop_block"] == scores.index(min(scores[1:-1])) and "drop_tokens" in layer
            assert layer["budget_tokens"] == 256
        tighter = json.loads(
            folioctl("explain", sequence, "--policy", "kv_crush:share=0.25", "--budget", 64, "--output", "json")
        )
        assert tighter["due"]
        for layer in tighter["layers"]:
            dropped = sum(part["end"] - part["begin"] for part in layer["drop_tokens"])
            assert dropped == layer["resident_tokens"] - 64 and len(layer["scores"]) == layer["resident_tokens"]
        assert "tokens: " in folioctl("explain", sequence, "--policy", "streaming_llm", "--budget", "0.05")
        assert "writes the scores of policy paged_eviction" in folioctl(
            "explain", sequence, "--policy", "key_diff", "--budget", 64, code=8
        )
        assert "not a multiple" in folioctl("explain", sequence, "--policy", "random", "--budget", 65, code=5)
    finally:
        call.cancel()
    assert "NOT_FOUND" in folioctl("explain", 10**9, code=4)


def test_score(folioctl):
    output = folioctl("score", "The capital of France is", "--continuation", " Paris.", "--top", 3)
    assert '" Paris"' in output and "perplexity" in output
    tokens_json = json.loads(folioctl("score", "a", "--continuation", " b c", "--output", "json"))["tokens"]
    assert len(tokens_json) == 2 and all(token["logprob"] < 0 for token in tokens_json)


def test_tokenize_and_back(folioctl):
    assert folioctl("tokenize", "Hello, world!", "--ids") == "19556 28 905 17\n"
    assert '" world"' in folioctl("tokenize", "Hello, world!")
    chat = json.loads(folioctl("tokenize", "--chat", CHAT["messages"][0]["content"], "--output", "json"))
    assert chat["text"] == CHAT["text"]
    assert folioctl("detokenize", 19556, 28, 905, 17) == "Hello, world!\n"


def test_compare(folioctl, tmp_path):
    prompt = tmp_path / "prompt.txt"
    prompt.write_text(json.loads((ORACLE / "generation.json").read_text())[NEEDLES.index]["prompt"])
    output = folioctl(
        "compare", "--file", prompt, "--expect", "19494", "--max_tokens", 24, "--run", "full", "--run", "paged_eviction:512",
        "--run", "streaming_llm:256", "--mode", "synchronous",
    )
    rows = {line.split()[0]: line for line in output.splitlines() if line.startswith(("full ", "paged", "streaming"))}
    assert " right " in rows["full"]
    assert "The tokens that each policy kept:" in output and output.count("positions 0 to") == 3


def test_chat(folioctl):
    output = folioctl(
        "chat", "--system", "Be brief.", "--max_tokens", 16,
        input="What is the capital of France?\n/stats\nAnd of Italy?\n/reset\n/quit\n",
    )
    assert "Paris" in output and "generated tokens" in output and "starts again" in output


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        (["generate", "x", "--policy", "streaming_llm"], 5, "budget_tokens is missing"),
        (["generate", "x", "--max_tokens", "100000"], 5, "context"),
        (["sequence", "123456789"], 4, "123456789"),
        (["generate", "a b c", "--max_tokens", "5000", "--ignore_eos", "--timeout", "500ms"], 7, "deadline"),
        (["pools", "--address", "unix:/tmp/folio-nobody.sock"], 3, "/tmp/folio-nobody.sock"),
        (["generate", "--file", "/nonexistent"], 4, "/nonexistent"),
    ],
)
def test_failures_have_exit_codes(folioctl, arguments, code, words):
    assert words in folioctl(*arguments, code=code)


def test_ctrl_c_cancels_and_exits_with_130(folioctl, bfloat16):
    with bfloat16.closing("cancelled"):
        process = subprocess.Popen(
            [BIN / "folioctl", "generate", "Count: 1, 2, 3,", "--max_tokens", "5000", "--ignore_eos"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=folioctl.environment,
        )
        assert process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == 130, errors


def test_a_killed_client_frees_its_pages(folioctl, bfloat16):
    with bfloat16.closing("cancelled"):
        process = subprocess.Popen(
            [BIN / "folioctl", "generate", "Count: 1, 2, 3,", "--max_tokens", "5000", "--ignore_eos"],
            stdout=subprocess.PIPE, env=folioctl.environment,
        )
        assert process.stdout.read(1)
        process.kill()
        process.communicate()


def test_the_sdk_example(nothing_lost):
    result = subprocess.run(
        [BIN / "folio-example", nothing_lost.worker_address(), "What is the capital of France?"],
        capture_output=True, text=True, timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert "Paris" in result.stdout and "pages held]" in result.stdout


def test_reflection_and_health_on_both(nothing_lost):
    manager, worker = nothing_lost.channels[0], nothing_lost.channels[-1]
    for channel, services in (
        (manager, {"folio.v1.Admin", "folio.v1.KvManager"}),
        (worker, {"folio.v1.Inference"}),
    ):
        database = ProtoReflectionDescriptorDatabase(channel)
        assert services <= set(database.get_services())
        for service in services | {"grpc.health.v1.Health"}:
            file = database.FindFileContainingSymbol(service)
            assert file.package == service.rpartition(".")[0]
        status = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=PATIENCE).status
        assert status == health_pb2.HealthCheckResponse.SERVING


def test_two_people_at_once(folioctl, bfloat16):
    """A long prompt's prefill holds a running answer up by a step at a time. The manager's record shows the order of steps,
    whatever the speed of the machine."""
    process = subprocess.Popen(
        [BIN / "folioctl", "generate", "Once", "--max_tokens", "7000", "--ignore_eos"],
        stdout=subprocess.PIPE, env=folioctl.environment,
    )
    try:
        assert process.stdout.read(1)
        (answer,) = bfloat16.sequences()
        request = inference_pb2.GenerateRequest(input=inference_pb2.Input(text="word " * 3000), max_tokens=1)
        steps, seen = 0, []  # (tokens of the answer, of the prompt)
        for event in bfloat16.stub.Generate(request, timeout=240):
            lengths = {one.sequence_id: one.logical_length for one in bfloat16.sequences()}
            steps += event.HasField("prefill")
            if len(lengths) == 2:
                seen.append((lengths.pop(answer.sequence_id), *lengths.values()))
        assert steps >= 5 and len(seen) >= 3 and process.poll() is None, "the answer was over before the prefill"
    finally:
        process.kill()
        process.communicate()
    for (text, prompt), (later, further) in itertools.combinations(seen, 2):
        # The tokens of a chunk beside decodes at most; the last of these steps may have been recorded in part.
        assert later - text >= (further - prompt) / CHUNK - 2, seen
    assert seen[-1][1] - seen[0][1] > 2 * CHUNK, seen
