"""Prompts of a GGUF model by OpenVINO GenAI, in tokens per second: openvino_gguf.py MODEL.gguf [--tokens N] [--threads N] [--rounds N]

OpenVINO takes the file's numbers into weights of its own, 4 bits among them. It wants `general.file_type` in the file."""

import argparse
import time

import numpy
import openvino
import openvino_genai


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--tokens", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    pipe = openvino_genai.LLMPipeline(args.model, "CPU", INFERENCE_NUM_THREADS=args.threads)
    one_token = openvino_genai.GenerationConfig(max_new_tokens=1, ignore_eos=True, do_sample=False)
    random = numpy.random.default_rng(1)
    for _ in range(args.rounds):
        ids = random.integers(300, 30000, (1, args.tokens)).astype(numpy.int64)
        start = time.monotonic()
        pipe.generate(openvino.Tensor(ids), one_token)
        print(f"{args.tokens / (time.monotonic() - start):.1f}", flush=True)


if __name__ == "__main__":
    main()
