folio_test(model_source_test
  source_block_formats_test.cc source_dequantize_test.cc source_gguf_config_test.cc source_gguf_damage_test.cc
  source_fp8_test.cc source_hf_damage_test.cc source_hf_test.cc source_mutation_test.cc source_open_test.cc source_mistral_test.cc source_qwen2_test.cc source_qwen3_test.cc
  source_reference_test.cc source_safetensors_damage_test.cc
  LIBS folio_model_source folio_model_tp folio_testing_model)

# For test_block_formats.py.
add_executable(dequantize_blocks dequantize_blocks.cc)
target_link_libraries(dequantize_blocks PRIVATE folio_model_source)
