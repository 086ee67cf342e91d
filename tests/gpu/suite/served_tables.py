"""What real processes did, as tables in Markdown."""

from .table import NOT_RUN, goal, measured, name_of, percent, state, table


def decode(results):
    lines = [
        "## Decode through sockets",
        "",
        "Tokens/s of all streams while all of them decode: folio-manager and folio-worker with default flags and places for all",
        "streams, driven by `folioctl bench`. In one process: the same cell of this run without processes and sockets. To reach:",
        "97 % of it at 128 streams. vLLM's engine is in its benchmark's process.",
        "",
    ]
    body = []
    for one in results.get("records", {}).get("serve", []):
        cells = [state(one)] * 4
        if measured(one):
            share = one.get("share")
            judged = "" if share is None else goal(percent(share), share >= 0.97) if one["batch"] >= 128 else percent(share)
            cells = [
                f"{one['tokens_s']:,.0f}", f"{one['in_process_tokens_s']:,.0f}" if share else NOT_RUN, judged or NOT_RUN,
                f"{one['ttft_ms_max'] / 1e3:.2f} s",
            ]  # fmt: skip
        peer = f"{one['vllm_tokens_s']:,.0f}" if "vllm_tokens_s" in one else NOT_RUN
        body.append((one["model"], one["batch"], f"{one['context']:,}", name_of(one["budget"]), *cells, peer))
    head = ("model", "streams", "context", "budget", "served", "in one process", "share", "last first token", "vLLM, full cache")
    return lines + table(head, body or [[NOT_RUN] * len(head)])


def prompts(results):
    lines = [
        "## Prompts through sockets",
        "",
        "folio-manager and folio-worker with default flags. Tokens/s up to the last first token of prompts that arrive together,",
        "the median of several runs.",
        "To reach: vLLM's, whose engine is in its benchmark's process. vLLM's decode rate at the same cell stands beside.",
        "",
    ]
    body = []
    for one in (one for one in results.get("records", {}).get("prompts", []) if one["record"] == "prompts"):
        cells = [state(one)] * 2
        if measured(one):
            cells = [f"{one['tokens_s']:,.0f}", f"{one['ttft_ms_max']:,.0f} ms"]
        peer = [NOT_RUN] * 3
        if "vllm_tokens_s" in one:
            ratio = one["tokens_s"] / one["vllm_tokens_s"] if measured(one) else 0
            peer = [f"{one['vllm_tokens_s']:,.0f}", goal(f"{ratio:.2f}", ratio >= 1), f"{one['vllm_decode_tokens_s']:,.0f}"]
        body.append((one["model"], one["batch"], f"{one['context']:,}", *cells, *peer))
    head = ("model", "prompts", "tokens of each", "tokens/s", "last first token", "vLLM", "of vLLM", "vLLM's decode")
    return lines + table(head, body or [[NOT_RUN] * len(head)])


def beside(results):
    lines = [
        "## Streams beside long prompts",
        "",
        "Times between two tokens of streams that decode while long prompts arrive, one a second on average, with default flags.",
        "To reach: the 99th percentile is at most 2.5 times the median.",
        "",
    ]
    body = []
    for one in (one for one in results.get("records", {}).get("prompts", []) if one["record"] == "beside"):
        cells = [state(one)] * 5
        if measured(one):
            ratio = one["itl_ms_p99"] / one["itl_ms_p50"]
            cells = [f"{one[f'itl_ms_{key}']:.2f} ms" for key in ("p50", "p99", "max")]
            cells += [goal(f"{ratio:.2f}", ratio <= 2.5), f"{one['ttft_ms_p50']:,.0f} ms"]
        body.append((one["model"], one["batch"], f"{one['context']:,}", *cells))
    head = ("model", "streams", "tokens of a prompt", "median", "99th percentile", "longest", "99th of the median",
            "first token of a prompt")  # fmt: skip
    return lines + table(head, body or [[NOT_RUN] * len(head)])
