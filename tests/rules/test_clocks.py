"""The time of day serves logs alone: leases, deadlines, waits and measurements go by the steady clock.

The clock of the time of day is set, by NTP, by an administrator, or when a virtual machine wakes. A lease on it ends
when it is set forward and never ends when it is set back.
"""

import re

import pytest
from test_layout import ROOT, cpp_files

# Patterns of the time of day in code, and what stands there instead.
RULES = {
    r"\babsl::(?:Now|GetCurrentTimeNanos)\(": "SteadyNow()",
    r"\babsl::(?:Time\b|InfiniteFuture|InfinitePast|UnixEpoch)": "SteadyTime (services/base/steady_time.h)",
    # These waits of absl::Mutex, CondVar and Notification end at a time of day, even if they are given a duration.
    r"\b\w+With(?:Timeout|Deadline)\(": "SteadyCondVar or SteadyNotification (services/base/steady_wait.h)",
    r"\babsl::ToChronoTime\(": "GrpcDeadline (services/grpc/grpc_deadline.h)",
    r"\bsystem_clock\b|\b(?:GPR_)?CLOCK_REALTIME\b|\bgettimeofday\(|\btime\((?:nullptr|NULL|0)\)": "SteadyNow()",
}
# Files that tell the time of day, and why.
ALLOWED = {
    "services/gateway/generation.cc": "an answer has the time of day at which it was made",
    "services/gateway/http/status_text.cc": "an answer of HTTP has the time of day",
    "services/gateway/workers/worker_set.cc": "a model has the time of day since which it is served",
    "services/manager/event_log.cc": "an event has the time of day",
    "services/cli/archive.cc": "a file of an archive has the time of day",
    "services/cli/top_data.cc": "a frame has the time of day",
    "services/cli/bench.cc": "a result has the time of day at which it was measured",
    "services/tracing/wall_time.cc": "a span has the time of day",
    "services/runtime/logging.h": "a line of the log has the time of day",
    "services/runtime/logging.cc": "a line of the log has the time of day",
    "services/runtime/certificate_files.cc": "a certificate ends at a time of day",
    "services/grpc/steady_waits.cc": "a wait of Abseil ends at a time of day, which it turns into a steady one",
    "services/model/tokenizer/tokenizer.cc": "a chat template may ask for today's date",
}


def broken(code):
    """A pair for each breach in C++ code: the words that are written, and those to write."""
    code = re.sub(r"//[^\n]*", "", code)
    return [(match[0], instead) for pattern, instead in RULES.items() for match in re.finditer(pattern, code)]


def test_the_time_of_day_serves_logs_alone():
    found = {name: broken((ROOT / name).read_text()) for name in cpp_files()}
    assert len(found) > 300, "found hardly any file: is the test looking in the right place?"
    wrong = [f"{name}: {written} goes by the time of day; write {instead}"
             for name, breaches in found.items() if name not in ALLOWED for written, instead in breaches]
    wrong += [f"{name} no longer tells the time of day: delete it from ALLOWED"
              for name in ALLOWED if not found.get(name)]
    assert not wrong, "\n".join(wrong)


def test_the_python_sdk_goes_by_the_steady_clock():
    files = [path for path in sorted((ROOT / "services").rglob("*.py")) if not path.name.endswith("_pb2.py")]
    assert files
    wrong = [f"{path.relative_to(ROOT)}: {match[0]} is the time of day; write time.monotonic()" for path in files
             for match in re.finditer(r"\btime\.time\(|\bdatetime\.(?:\w+\.)?(?:now|utcnow)\(", path.read_text())]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("line", [
    "const absl::Time start = absl::Now();",
    "absl::Status Wait(absl::Time deadline);",
    "deadline = absl::InfiniteFuture();",
    "mutex_.AwaitWithTimeout(absl::Condition(&ready), absl::Seconds(1));",
    "changed_.WaitWithDeadline(&mutex_, deadline);",
    "while (!stop_.WaitForNotificationWithTimeout(period)) {}",
    "context.set_deadline(absl::ToChronoTime(deadline));",
    "const auto now = std::chrono::system_clock::now();",
    "clock_gettime(CLOCK_REALTIME, &now);",
    "const time_t now = time(nullptr);",
])  # fmt: skip
def test_the_time_of_day_is_found(line):
    assert broken(line)


@pytest.mark.parametrize("line", [
    "const SteadyTime start = SteadyNow();",
    "deadline = SteadyTime::InfiniteFuture();",
    "const auto now = std::chrono::steady_clock::now();",
    "changed_.Await(&mutex_, deadline, ready);",
    "absl::Duration timeout = absl::Seconds(3);  // not absl::Now()",
    "absl::Status RunWithin(absl::Duration timeout);",
])  # fmt: skip
def test_the_steady_clock_is_allowed(line):
    assert not broken(line)
