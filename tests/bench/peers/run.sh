#!/usr/bin/env bash
# Folio beside its peers, same weights, same threads, one run: tests/bench/peers/run.sh [OUT_DIR]
# The peers are installed, locked, into an environment outside the repository: some GB of disk, and llama.cpp is
# compiled, which takes minutes the first time.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
cache=${FOLIO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/folio}
peers=$cache/peers
out=${1:-$peers/results}
threads=${FOLIO_THREADS:-$(nproc)}
export TQDM_DISABLE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 HF_HUB_OFFLINE=1
mkdir -p "$peers" "$out"

"$root/deploy/setup.sh" --tests
model=$("$root/deploy/fetch_model.sh")
"$root/deploy/build.sh" "$root/build" -DCMAKE_BUILD_TYPE=Release -DFOLIO_TESTS=ON -- folio-manager folio-worker folio_bench

# llama.cpp's code for AMX crashes as GCC 12 compiles it.
export CMAKE_ARGS="-DGGML_NATIVE=OFF"
for pair in fma:FMA f16c:F16C bmi2:BMI2 avx_vnni:AVX_VNNI avx512f:AVX512 avx512vbmi:AVX512_VBMI avx512_vnni:AVX512_VNNI \
  avx512_bf16:AVX512_BF16; do
  ! grep -qw "${pair%:*}" /proc/cpuinfo || CMAKE_ARGS+=" -DGGML_${pair#*:}=ON"
done
python=$("$root/deploy/python_env.sh" "$peers/venv" "$here/requirements.txt")
hf=$peers/SmolLM2-135M-Instruct-hf
"$python" "$root/tests/model/gguf_to_hf.py" "$model" "$hf" --if-missing
if [ ! -e "$peers/openvino/openvino_model.xml" ]; then
  echo "[peers] exporting for OpenVINO (fp16 weights)" >&2
  "$peers/venv/bin/optimum-cli" export openvino --model "$hf" --task text-generation-with-past \
    --weight-format fp16 "$peers/openvino" >"$out/export.log" 2>&1 || { tail -20 "$out/export.log" >&2; exit 1; }
fi
[ -e "$peers/bf16.gguf" ] || "$python" "$here/gguf_to_bf16.py" "$model" "$peers/bf16.gguf"

echo "[peers] Folio" >&2
"$root/build/bin/folio_bench" --model="$model" --threads="$threads" --peer_cases \
  --json="$out/folio.json"
echo "[peers] OpenVINO GenAI" >&2
"$python" "$here/openvino_peer.py" "$peers/openvino" "$out/openvino.json" --threads "$threads"
"$python" "$here/openvino_peer.py" "$peers/openvino" "$out/openvino_crush.json" --threads "$threads" --crush
echo "[peers] llama.cpp" >&2
"$python" "$here/llama_peer.py" "$peers/bf16.gguf" "$out/llama.json" --threads "$threads"
"$python" "$here/report.py" "$out"/{folio,openvino,openvino_crush,llama}.json | tee "$out/table.txt"
