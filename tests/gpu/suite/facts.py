"""What there is to measure on: the GPU, its driver, its clocks; or why there is none."""

import ctypes
import datetime
import json
import shutil
import subprocess
import sys

QUERIES = {
    "name": "name",
    "driver": "driver_version",
    "memory_mib": "memory.total",
    "sm_mhz": "clocks.sm",
    "memory_mhz": "clocks.mem",
    "most_sm_mhz": "clocks.max.sm",
    "power_limit_w": "power.limit",
    "temperature_c": "temperature.gpu",
}


def driver():
    """(None, facts) by the driver itself, or (why there is no GPU, {})."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no NVIDIA driver here (libcuda.so.1 is not found)", {}
    result = cuda.cuInit(0)
    if result != 0:
        return f"NVIDIA's driver does not start (cuInit gave {result})", {}
    count = ctypes.c_int()
    if cuda.cuDeviceGetCount(ctypes.byref(count)) != 0 or count.value == 0:
        return "NVIDIA's driver sees no GPU", {}
    version, device, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(128)
    cuda.cuDriverGetVersion(ctypes.byref(version))
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    cuda.cuDeviceGetName(name, len(name), device)
    number = version.value
    return None, {"name": name.value.decode(), "cuda": f"{number // 1000}.{number % 1000 // 10}", "gpus": count.value}


def queried():
    """What nvidia-smi says of GPU 0, now."""
    tool = shutil.which("nvidia-smi")
    if not tool:
        return {}
    command = [tool, "--id=0", f"--query-gpu={','.join(QUERIES.values())}", "--format=csv,noheader,nounits"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except subprocess.TimeoutExpired:
        return {}
    values = [value.strip() for value in said.stdout.strip().split(",")]
    return dict(zip(QUERIES, values)) if said.returncode == 0 and len(values) == len(QUERIES) else {}


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")


def gather():
    """{"device": facts or None, "why": words or None, "date": now}."""
    # In a process of its own: one that has started the driver had better start no others.
    said = subprocess.run([sys.executable, __file__], capture_output=True, text=True, timeout=60)
    why, facts = json.loads(said.stdout) if said.returncode == 0 else (f"the driver cannot be asked: {said.stderr}", {})
    return {"date": now(), "device": None if why else {**queried(), **facts}, "why": why}


if __name__ == "__main__":
    print(json.dumps(driver()))
