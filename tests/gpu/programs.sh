# shellcheck shell=bash disable=SC2034
# The programs that tests/gpu/run.sh runs; sourced.
FOLIO_GPU_PROGRAMS=(
  gpu_kernels_test gpu_executor_test gpu_oracle_test gpu_pool_test gpu_group_test gpu_ranks_test
  gpu_attention_bench gpu_speed_bench folio-manager folio-worker folioctl
)
