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
