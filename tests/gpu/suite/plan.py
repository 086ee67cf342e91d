"""The sections of a run, in their order: what must be right first, then how fast it is with the time that is left."""

import os
import pathlib
import sys

from . import failover, prompts, serve, tables, tensor_parallel
from .places import find_tool
from .sections import (
    NOT_RUN, SKIPPED, Outcome, Section, execute, judge_benchmark, judge_sanitizer, judge_tests, last_words,
)  # fmt: skip

# For the sanitizer, under which everything takes a hundred times as long.
MEMCHECK = "*GpuStepTest*:*GpuCompactTest*:*GpuRopeTest.Padding*:*GpuGluTest*:*GpuMemoryTest.Copies*"
RACECHECK = "*GpuCompactTest.EqualsTheCpu*:*GpuSampleTest.Ties*:*GpuRowsTest.AddRmsNormEqualsPlain*"
# FlashInfer's and cuBLASLt's kernels are not ours, and take minutes there.
OUR_KERNELS = "-*GpuAttentionTest*:*GpuGemmTest*:*GpuFp8GemmTest*"
NO_MODEL = "the reference model is not here: give --model=FILE (deploy/fetch_model.sh prints one)"
FP8_MARGIN = 15  # seconds that the cells of FP8 may take longer than foretold
SPEED_MARGIN = 30  # seconds that the benchmark may err by when it foretells how long a cell takes


class Suite:
    """Makes the sections, which write to OUT/logs. `model` is the reference model's file or None, `oracle` the folder
    of its generations, `vllm` a folder with vLLM and a program that measures it, or None."""

    def __init__(self, places, out, model=None, oracle=None, speed_flags=(), gpus=1, vllm=None):
        self.places, self.logs, self.model, self.oracle = places, pathlib.Path(out) / "logs", model, oracle
        self.speed_flags = list(speed_flags)
        self.gpus, self.peer = gpus, vllm

    def sections(self):
        return [
            self.tests("kernels", "gpu_kernels_test", 90),
            self.tests("executor", "gpu_executor_test", 60),
            self.tests("pool", "gpu_pool_test", 40, FOLIO_MANAGER=self.places["folio-manager"]),
            self.tests("oracle", "gpu_oracle_test", 90, needs_model=True),
            self.tests("nccl", "gpu_group_test", 60),
            self.tests("ranks", "gpu_ranks_test", 60),
            self.sanitizer("memcheck", "memcheck", MEMCHECK, 45),
            self.sanitizer("racecheck", "racecheck", RACECHECK, 45),
            Section("failover", "correctness", 60, self.failover, least=15),
            Section("tensor_parallel", "correctness", 100, self.tensor_parallel, least=30),
            self.benchmark("attention", "gpu_attention_bench", 75),
            Section("fp8", "speed", 90, self.fp8, least=FP8_MARGIN + 30),
            Section("prompts", "speed", 330 if self.peer else 130, self.prompts, least=60),
            Section("serve", "speed", 300 if self.peer else 120, self.serve, least=60),
            Section("speed", "speed", 400, self.speed, least=SPEED_MARGIN + 15),
            Section("vllm", "peer", 20, self.vllm, least=0),
        ]

    def sanitizers(self):
        """The second command: each tool over all of our kernels. Together they take no more than a whole run may, so
        that none takes the time of another."""
        return [
            self.sanitizer("memcheck_all", "memcheck", OUR_KERNELS, 80),
            self.sanitizer("synccheck_all", "synccheck", OUR_KERNELS, 70),
            self.sanitizer("initcheck_all", "initcheck", OUR_KERNELS, 70),
            self.sanitizer("racecheck_all", "racecheck", OUR_KERNELS, 150),
            # racecheck of the executor does not end in that time, most of which cuBLASLt's kernels take.
            self.sanitizer("memcheck_executor", "memcheck", "*", 90, "gpu_executor_test", "--leak-check", "full"),
        ]

    def execute(self, name, command, seconds, **environment):
        return execute(command, self.places.environment(**environment), seconds, self.logs / f"{name}.log")

    def tests(self, name, program, limit, needs_model=False, **environment):
        def run(seconds):
            if needs_model and not self.model:
                return Outcome(SKIPPED, NO_MODEL)
            lacking = self.places.why_not(program)
            if lacking:
                return Outcome(NOT_RUN, lacking)
            more = dict(environment)
            if needs_model:
                more.update(FOLIO_MODEL=str(self.model), FOLIO_ORACLE=str(self.oracle))
            return judge_tests(self.execute(name, [self.places[program]], seconds, **more), seconds)

        return Section(name, "correctness", limit, run)

    def sanitizer(self, name, tool, which, limit, program="gpu_kernels_test", *flags):
        def run(seconds):
            sanitizer = find_tool("compute-sanitizer", self.places.base)
            if not sanitizer:
                return Outcome(SKIPPED, "compute-sanitizer is not here: it is part of the CUDA Toolkit")
            lacking = self.places.why_not(program)
            if lacking:
                return Outcome(NOT_RUN, lacking)
            command = [sanitizer, "--tool", tool, *flags, "--error-exitcode", "99", self.places[program],
                       f"--gtest_filter={which}"]  # fmt: skip
            return judge_sanitizer(self.execute(name, command, seconds), seconds)

        return Section(name, "correctness", limit, run)

    def benchmark(self, name, program, limit):
        def run(seconds):
            lacking = self.places.why_not(program)
            if lacking:
                return Outcome(NOT_RUN, lacking)
            return judge_benchmark(self.execute(name, [self.places[program]], seconds), seconds)

        return Section(name, "speed", limit, run)

    def speed(self, seconds):
        return self.speed_bench("speed", seconds, SPEED_MARGIN, *self.speed_flags)

    def fp8(self, seconds):
        """Decode cells and a prompt in both types of weights, one after the other on the same GPU."""
        cells = ",".join(f"{batch}x{context}" for batch, context in tables.FP8_CELLS)
        return self.speed_bench("fp8", seconds, FP8_MARGIN, "--models=8b,1b", "--computes=bfloat16,fp8", f"--cells={cells}",
                                "--prompt_beside_cells")  # fmt: skip

    def speed_bench(self, name, seconds, margin, *flags):
        lacking = self.places.why_not("gpu_speed_bench")
        if lacking:
            return Outcome(NOT_RUN, lacking)
        command = [self.places["gpu_speed_bench"], f"--seconds={seconds - margin:.0f}", *flags]
        return judge_benchmark(self.execute(name, command, seconds), seconds)

    def lacking_daemons(self):
        """Why real processes cannot be run, or None."""
        reasons = map(self.places.why_not, ("folio-manager", "folio-worker", "folioctl"))
        return next((Outcome(NOT_RUN, lacking) for lacking in reasons if lacking), None)

    def without_daemons(self):
        """The same for those that serve the reference model."""
        return self.lacking_daemons() if self.model else Outcome(SKIPPED, NO_MODEL)

    def serve(self, seconds):
        return self.lacking_daemons() or serve.run(self.places, self.logs, seconds, vllm_folder=self.peer)

    def prompts(self, seconds):
        return self.lacking_daemons() or prompts.run(self.places, self.logs, seconds, vllm_folder=self.peer)

    def failover(self, seconds):
        lacking = self.without_daemons()
        return lacking or failover.run(self.places, self.model, self.logs / "failover.log", seconds)

    def tensor_parallel(self, seconds):
        devices = tensor_parallel.two_devices(self.gpus)
        lacking = self.without_daemons()
        too_old = None if lacking else tensor_parallel.why_not(self.places, devices)
        if too_old:
            return Outcome(SKIPPED, too_old)
        return lacking or tensor_parallel.run(self.places, self.model, self.logs / "tensor_parallel.log", seconds, devices)

    def vllm(self, seconds):
        """Whether it is here is all that is asked: its own benchmark is what compares it."""
        command = [sys.executable, "-c", "import vllm; print(vllm.__version__)"]
        done = execute(command, dict(os.environ), seconds, self.logs / "vllm.log")
        if done.code == 0:
            version = last_words(done.text, 1)
            return Outcome(NOT_RUN, f"vLLM {version} is here; its own `vllm bench` is not part of this run")
        return Outcome(NOT_RUN, "vLLM is not installed here")
