add_library(folio_executor_harness STATIC clear_script.cc executor_harness.cc naive_model.cc random_model.cc
            swap_script.cc)
target_link_libraries(folio_executor_harness PUBLIC folio_model)

folio_test(family_test family_test.cc LIBS folio_executor_harness folio_testing_model)
folio_test(sampler_test logit_edits_test.cc sampler_test.cc LIBS folio_model)
folio_test(rope_test rope_test.cc LIBS folio_model)
folio_test(padded_heads_test padded_heads_test.cc LIBS folio_executor_harness folio_testing_model)
folio_test(executor_test executor_test.cc executor_clear_test.cc executor_damage_test.cc LIBS folio_executor_harness)
folio_test(executor_score_test executor_score_test.cc executor_unrotated_test.cc LIBS folio_executor_harness)
folio_test(executor_forward_test executor_forward_test.cc executor_window_test.cc LIBS folio_executor_harness)

# Tensor parallelism: several ranks, as threads and as processes.
folio_test(shard_test shard_test.cc rank_command_test.cc LIBS folio_executor_harness)
add_library(folio_tp_harness STATIC conversation.cc tp_harness.cc)
target_link_libraries(folio_tp_harness PUBLIC folio_executor_harness folio_testing_ranks)
folio_test(tp_executor_test tp_executor_test.cc LIBS folio_tp_harness)

# Needs the reference model: see FOLIO_MODEL in the file.
if(TARGET folio_model_source AND TARGET folio_policy)
  # Of any device: tests/gpu has another.
  add_library(folio_oracle_harness STATIC oracle_sequence.cc)
  target_link_libraries(folio_oracle_harness PUBLIC folio_executor_harness folio_model_source folio_policy GTest::gtest
                                                nlohmann_json::nlohmann_json)
  folio_test(oracle_executor_test oracle_executor_test.cc LIBS folio_oracle_harness)
  target_compile_definitions(oracle_executor_test PRIVATE
                             FOLIO_ORACLE="${CMAKE_SOURCE_DIR}/tests/oracle")
  folio_test(tp_reference_test tp_reference_test.cc
             LIBS folio_tp_harness folio_model_source nlohmann_json::nlohmann_json)
  target_compile_definitions(tp_reference_test PRIVATE FOLIO_ORACLE="${CMAKE_SOURCE_DIR}/tests/oracle")
endif()
