find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_library(XXHASH_LIBRARY xxhash REQUIRED)

add_library(folio_model_source
  dequantize.cc gguf_fields.cc gguf_file.cc gguf_model.cc gguf_value.cc hf_config.cc hf_model.cc
  hf_tokenizer.cc json_fields.cc mapped_file.cc model_parts.cc model_source.cc safetensors_file.cc)
target_include_directories(folio_model_source PRIVATE ${XXHASH_INCLUDE_DIR})
target_link_libraries(folio_model_source
  PUBLIC folio_common
  PRIVATE folio_build folio_runtime folio_tokenizer nlohmann_json::nlohmann_json ${XXHASH_LIBRARY})
