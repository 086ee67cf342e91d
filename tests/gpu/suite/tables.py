"""results.json as tables in Markdown. A cell that nobody has measured says so."""

from . import served_tables
from .table import NOT_RUN, goal, measured, name_of, percent, state, table

MODELS = ("Llama-3.2-1B", "Llama-3.2-3B", "Llama-3.1-8B")
BATCHES = (1, 16, 64, 128)
CONTEXTS = (1024, 8192, 32768)
BUDGETS = (0, 4096, 1024, 512)  # 0: the full cache
PAPER = ((0, 2200), (4096, None), (2048, None), (1024, 3020), (512, None), (256, None))
FP8_CELLS = ((64, 1024), (1, 1024), (16, 1024), (16, 8192))  # batch and context, the full cache


def records(results, kind):
    return [one for one in results.get("records", {}).get("speed", []) if one.get("record") == kind]


def find(rows, **wanted):
    """The first that is like this; one that was measured, if any."""
    like = [one for one in rows if all(one.get(key) == value for key, value in wanted.items())]
    return next((one for one in like if one.get("state") == "measured"), like[0] if like else None)


def summary(results):
    device = results.get("device")
    if device:
        facts = [device.get("name", "GPU"), *(f"{key} {device.get(key, 'unknown')}" for key in ("driver", "cuda"))]
        if "sm_mhz" in device:
            facts.append(f"SM at {device['sm_mhz']} of {device['most_sm_mhz']} MHz and idle at the start")
            facts.append(f"memory at {device['memory_mhz']} MHz")
        if "power_limit_w" in device:
            facts.append(f"power limit {device['power_limit_w']} W")
        first = ", ".join(facts)
    else:
        first = f"No GPU: {results.get('why') or NOT_RUN}. Nothing here was measured."
    when = f"{results.get('date', NOT_RUN)}, commit {results.get('commit', 'unknown')}"
    if "nccl" in results:
        when += f", with {results['nccl']}"
    lines = ["# Folio on one GPU", "", first, "", when, ""]
    rows = [
        (one["name"], one["kind"], one["state"], one["seconds"] if one["state"] != NOT_RUN else "", one["detail"])
        for one in results["sections"]
    ]
    return lines + ["## Sections", ""] + table(("section", "kind", "result", "seconds", "what was said"), rows)


def limits(results):
    lines = ["## Limits, measured in the same run", ""]
    device = find(records(results, "device"))
    rows = [
        ("copy, read and written", f"{device['copy_gb_s']:.0f} GB/s" if device else NOT_RUN),
        ("bf16 product", f"{device['product_tflops']:.0f} TFLOP/s" if device else NOT_RUN),
    ]
    return lines + table(("what", "most"), rows)


def decode(results):
    lines = [
        "## Decode, the whole worker",
        "",
        "Tokens/s of all sequences, and the share of the limit `max(weights / bandwidth, operations / peak) + KV bytes /",
        "bandwidth`. Policy PagedEviction, coordinator in the same process. Prompts are not computed: their pages",
        "hold random numbers. To reach: 80 % at batch 64, context 8,192, budget 1,024.",
        "",
    ]
    rows = records(results, "decode")
    for model in MODELS:
        body = []
        for batch in BATCHES:
            for context in CONTEXTS:
                cells = [find(rows, model=model, batch=batch, context=context, budget=budget) for budget in BUDGETS]
                body.append((batch, f"{context:,}", *(
                    f"{one['tokens_s']:,.0f} ({percent(one['share_of_limit'])})" if measured(one)
                    # A budget above the context evicts nothing.
                    else "as full" if budget > context else state(one)
                    for one, budget in zip(cells, BUDGETS)
                )))  # fmt: skip
        lines += [f"### {model}", ""] + table(("batch", "context", *(name_of(budget) for budget in BUDGETS)), body)
    judged = [find(rows, model=model, batch=64, context=8192, budget=1024) for model in MODELS]
    body = [
        (model, goal(percent(one["share_of_limit"]), one["share_of_limit"] >= 0.8) if measured(one) else state(one))
        for model, one in zip(MODELS, judged)
    ]
    return lines + table(("model", "share of the limit at 64 x 8,192, budget 1,024; to reach: 80 %"), body)


def prompts(results):
    lines = ["## Prompts, computed", ""]
    rows, body = records(results, "prefill"), []
    for model in MODELS:
        plain, evicting = (find(rows, model=model, tokens=8192, budget=budget) for budget in (0, 1024))
        cells = [state(plain)] * 3
        if measured(plain):
            cells = [f"{plain['ms']:,.0f}", f"{plain['tflops']:.0f}", percent(plain["share_of_peak"])]
        eviction = state(evicting)
        if measured(evicting):
            parts = " + ".join(percent(evicting[f"{part}_share"], 2) for part in ("scoring", "deciding", "compacting"))
            eviction = goal(parts, evicting["eviction_share"] <= 0.01)
        body.append((model, *cells, eviction))
    last = "scoring + deciding + compacting to 1,024; at most 1 %"
    head = ("model", "8,192 tokens, ms", "TFLOP/s", "of the product", last)
    return lines + table(head, body)


def costs(results):
    lines = ["## What eviction costs in decode: 64 x 8,192, budget 1,024", ""]
    rows, body = records(results, "costs"), []
    for model in MODELS:
        one = find(rows, model=model)
        cells = [state(one)] * 3
        if measured(one):
            parts = f"{percent(one['scoring_share'], 2)} + {percent(one['deciding_share'], 2)}"
            cells = [
                goal(parts, one["eviction_share"] <= 0.005),
                goal(percent(one["wait_share"], 2), one["wait_share"] <= 0.01),
                f"{one['step_ms']:.2f} and {one['synchronous_step_ms']:.2f}",
            ]
        body.append((model, *cells))
    head = ("model", "scoring + deciding; at most 0.5 %", "waiting for the manager; at most 1 %",
            "ms/step, pipelined and synchronous")  # fmt: skip
    return lines + table(head, body)


def fp8(results):
    lines = [
        "## Weights in FP8 beside bf16",
        "",
        "Decode in tokens/s of all sequences with the full cache, and a computed prompt in tokens/s, both types in one run.",
        "",
    ]
    rows, body = results.get("records", {}).get("fp8", []), []

    def line(model, what, **wanted):
        plain, small = (find(rows, model=model, compute=compute, **wanted) for compute in (None, "fp8"))
        cells = [f"{one['tokens_s']:,.0f}" if measured(one) else state(one) for one in (plain, small)]
        both = measured(plain) and measured(small)
        body.append((model, what, *cells, f"{small['tokens_s'] / plain['tokens_s']:.2f}" if both else NOT_RUN))

    for model in ("Llama-3.2-1B", "Llama-3.1-8B"):
        for batch, context in FP8_CELLS:
            line(model, f"decode {batch} x {context:,}", record="decode", batch=batch, context=context, budget=0)
        line(model, "prompt of 8,192", record="prefill", tokens=8192)
    return lines + table(("model", "cell", "bf16", "FP8", "FP8 of bf16"), body)


def paper(results):
    lines = [
        "## The paper's setting: Llama-3.2-1B, 64 sequences, input 1,024, output 8,192",
        "",
        "Prompts are computed; decode steps are measured at a few lengths (`steps` in all), and the time between these",
        "is interpolated. Published: arXiv 2509.04377, an A100 in eager mode.",
        "",
    ]
    rows, body = records(results, "paper"), []
    for budget, published in PAPER:
        one = find(rows, budget=budget)
        cells = [state(one)] * 3
        if measured(one):
            cells = [f"{one['output_tokens_s']:,.0f}", f"{one['total_tokens_s']:,.0f}", f"{one['steps_run']:.0f}"]
        body.append((name_of(budget), *cells, f"{published:,}" if published else ""))
    head = ("budget", "output tokens/s", "input and output tokens/s", "steps", "published tokens/s")
    return lines + table(head, body)


def flashinfer(record):
    """FlashInfer's own decode on this shape, and our rate as a share of its."""
    if record.get("flashinfer") != "measured":
        return record.get("flashinfer", NOT_RUN)
    return f"{record['flashinfer_us']:.0f} ({percent(record['share_of_flashinfer'])})"


def attention(results):
    lines = [
        "## Attention alone, of the copy's bandwidth; to reach: 85 % at 64 MB of KV and more",
        "",
        "Ours is the kernel for decode rows; runs before it had FlashInfer's prefill kernel over Folio's pages, which a column",
        "shows since. The peer is FlashInfer's decode kernel over its own default layout (K and V apart, without tensor cores);",
        "above 100 % ours is faster.",
        "",
    ]
    rows = [one for one in results.get("records", {}).get("attention", []) if "share_of_copy" in one]
    body = [
        (one["model"], one["batch"], f"{one['context']:,}", f"{one['kv_mib']:,.0f}", f"{one['us']:.0f}",
         goal(percent(one["share_of_copy"]), one["share_of_copy"] >= 0.85),
         f"{one['prefill_kernel_us']:.0f}" if "prefill_kernel_us" in one else "", flashinfer(one))
        for one in rows
    ] or [(model, *[NOT_RUN] * 7) for model in MODELS]  # fmt: skip
    head = ("model", "batch", "context", "KV, MiB", "us", "share", "FlashInfer's prefill, us",
            "FlashInfer's decode, us (our rate of its)")  # fmt: skip
    return lines + table(head, body)


def products(results):
    lines = [
        "## Products of decode steps, of the copy's bandwidth; to reach: 80 % with one row",
        "",
        "The products of all layers of a decode step, with norms, SwiGLU and residuals, as one CUDA graph: as the worker computes",
        "them by default, and by cuBLASLt with a kernel for each of the rest. Kernels of small batches serve up to eight rows. Up to",
        "some 128 rows, cuBLASLt computes two of a layer's products in parts, and one kernel adds these, the residual and the norm.",
        "",
    ]
    body = []
    for one in records(results, "products"):
        cells = [state(one)] * 3
        if measured(one):
            share = percent(one["share_of_copy"])
            cells = [
                f"{one['us']:.0f}", goal(share, one["share_of_copy"] >= 0.8) if one["rows"] == 1 else share,
                f"{one['cublaslt_us']:.0f} ({percent(one['cublaslt_share_of_copy'])})",
            ]  # fmt: skip
        body.append((one["model"], one["rows"], *cells))
    head = ("model", "rows", "us", "share", "cuBLASLt, us (share)")
    return lines + table(head, body or [(model, *[NOT_RUN] * 4) for model in MODELS])


def peers(results):
    lines = [
        "## Peer: the same kernels in a plain loop",
        "",
        "cuBLASLt and FlashInfer, tables that lie in one piece, no manager, no eviction, no service; eager. Tokens/s.",
        "",
    ]
    rows, folio, body = records(results, "peer"), records(results, "decode"), []
    for model in MODELS:
        for batch in BATCHES:
            for context in (1024, 8192):
                one = find(rows, model=model, batch=batch, context=context)
                ours = find(folio, model=model, batch=batch, context=context, budget=0)
                body.append((model, batch, f"{context:,}", *(
                    f"{each['tokens_s']:,.0f}" if measured(each) else state(each) for each in (one, ours)
                )))  # fmt: skip
    vllm = next((one for one in results["sections"] if one["name"] == "vllm"), None)
    end = [f"vLLM was {vllm['state']} because {vllm['detail']}." if vllm else "vLLM: not run.", ""]
    return lines + table(("model", "batch", "context", "plain loop", "Folio, full cache"), body) + end


def render(results):
    """The whole page."""
    parts = (summary, limits, decode, served_tables.decode, served_tables.prompts, served_tables.beside, prompts, fp8, costs, paper, attention, products, peers)
    return "\n".join(line for part in parts for line in part(results)).rstrip() + "\n"
