# Of the whole worker on a GPU, and of the same emulated (tests/gpu).
set(FOLIO_GPU_SPEED gpu_costs.cc gpu_decode.cc gpu_limits.cc gpu_model.cc gpu_paper.cc gpu_products.cc
                    gpu_speed_bench.cc plain_decode.cc random_fill.cu random_source.cc serving_harness.cc synthetic_prompts.cc)
list(TRANSFORM FOLIO_GPU_SPEED PREPEND ${CMAKE_SOURCE_DIR}/tests/bench/)
