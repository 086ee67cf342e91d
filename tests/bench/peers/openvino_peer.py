"""OpenVINO GenAI with continuous batching: openvino_peer.py MODEL_DIR OUT --threads N [--crush]"""

import argparse
import sys

import numpy as np
import openvino
import openvino_genai as genai

import cases


def scheduler(evict, crush):
    config = genai.SchedulerConfig()
    config.cache_size = 4  # GB; the longest case needs 1.6
    config.max_num_batched_tokens = 4096
    config.max_num_seqs = 32
    config.enable_prefix_caching = False
    config.dynamic_split_fuse = True
    if evict:
        kv_crush = genai.KVCrushConfig(16, genai.KVCrushAnchorPointMode.MEAN, 0) if crush else None
        config.use_cache_eviction = True
        config.cache_eviction_config = genai.CacheEvictionConfig(
            start_size=32, recent_size=128, max_cache_size=1024,
            aggregation_mode=genai.AggregationMode.NORM_SUM, kvcrush_config=kv_crush)
    return config


def generation(tokens):
    config = genai.GenerationConfig()
    config.max_new_tokens = tokens
    config.ignore_eos = True
    config.do_sample = False
    return config


def run(pipe, sequences, context, steps, seed):
    """Returns (prefill seconds, seconds for `steps` decode steps of all sequences)."""
    handles = []
    start = cases.clock()
    for i in range(sequences):
        ids = np.array([cases.prompt_ids(context, seed * 100 + i)], dtype=np.int64)
        # Some more tokens than measured, so that none ends while others are still prefilled.
        handles.append(pipe.add_request(i, openvino.Tensor(ids), generation(steps * 4)))
    counts = [0] * sequences

    def read():
        for i, handle in enumerate(handles):
            while handle.can_read():
                for output in handle.read().values():
                    counts[i] += len(output.generated_ids)

    while min(counts) == 0:
        pipe.step()
        read()
    prefill = cases.clock() - start
    before, start = sum(counts), cases.clock()
    for _ in range(steps):
        pipe.step()
    elapsed = cases.clock() - start
    read()
    done = sum(counts) - before
    for handle in handles:
        handle.cancel() if hasattr(handle, "cancel") else handle.drop()
    while pipe.has_non_finished_requests():
        pipe.step()
    return prefill, elapsed * (sequences * steps) / done


def precision():
    """bf16 as Folio has it, where the CPU computes in it. OpenVINO refuses a bf16 cache elsewhere."""
    return "bf16" if "BF16" in openvino.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES") else "f32"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--crush", action="store_true", help="only the evicting cases, with KVCrush")
    args = parser.parse_args()
    results, kind = {}, precision()
    for evict in (False, True):
        if args.crush and not evict:
            continue
        pipe = genai.ContinuousBatchingPipeline(
            args.model, scheduler(evict, args.crush), "CPU",
            {"INFERENCE_NUM_THREADS": args.threads, "KV_CACHE_PRECISION": kind,
             "INFERENCE_PRECISION_HINT": kind})
        run(pipe, 1, 256, 4, 99)  # warm-up
        for length in cases.PREFILL_EVICT if evict else cases.PREFILL:
            name = f"prefill {length}" + (" evict" if evict else "")
            results[name] = cases.best(lambda i: length / run(pipe, 1, length, 1, i)[0])
            print(f"{name}: {results[name]:.0f}", file=sys.stderr)
        for sequences, context, wants in cases.DECODE:
            if wants != evict:
                continue
            name = f"decode {sequences} x {context}" + (" evict" if evict else "")
            results[name] = cases.best(lambda i: sequences * cases.DECODE_STEPS / run(
                pipe, sequences, context, cases.DECODE_STEPS, i)[1], 2)
            print(f"{name}: {results[name]:.0f}", file=sys.stderr)
        del pipe
    name = "OpenVINO GenAI + KVCrush" if args.crush else "OpenVINO GenAI"
    cases.emit(args.out, name if kind == "bf16" else f"{name}, {kind}", results)


if __name__ == "__main__":
    main()
