add_library(folio_model
  cpu_executor.cc pool_fit.cc rank_command.cc rank_exchange.cc rank_follower.cc resident_scoring.cc rope.cc sampler.cc segment_output.cc shard.cc
  slot_table.cc step_rows.cc tensor_reader.cc tp_executor.cc
  transformer.cc weights.cc)
target_link_libraries(folio_model PUBLIC folio_build folio_common folio_kernels folio_collective)
foreach(part folio_model_source folio_tokenizer)
  if(TARGET ${part})
    target_link_libraries(folio_model PUBLIC ${part})
  endif()
endforeach()

# The executor on a GPU. Sources by name from the root, so that the emulation in tests/gpu compiles
# the same ones.
set(FOLIO_CUDA_MODEL cuda_executor.cc cuda_graphs.cc cuda_model.cc cuda_parts.cc cuda_sampling.cc cuda_scoring.cc cuda_step.cc cuda_tables.cc
                     cuda_transformer.cc device_weights.cc)
list(TRANSFORM FOLIO_CUDA_MODEL PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
set_property(GLOBAL PROPERTY FOLIO_CUDA_MODEL ${FOLIO_CUDA_MODEL})
# Of several ranks: needs NCCL.
set_property(GLOBAL PROPERTY FOLIO_CUDA_RANKS ${CMAKE_CURRENT_SOURCE_DIR}/nccl_exchange.cc)
if(FOLIO_CUDA)
  add_library(folio_cuda_model ${FOLIO_CUDA_MODEL})
  target_link_libraries(folio_cuda_model PUBLIC folio_model folio_cuda_kernels folio_cuda_attention folio_cuda_gemm)
  add_library(folio_cuda_ranks nccl_exchange.cc)
  target_link_libraries(folio_cuda_ranks PUBLIC folio_cuda_model folio_nccl_group)
endif()
