folio_test(gguf_tokenizer_test gguf_tokenizer_test.cc LIBS folio_tokenizer)
folio_test(gguf_sentencepiece_test gguf_sentencepiece_test.cc LIBS folio_tokenizer)
folio_test(sentencepiece_test sentencepiece_test.cc LIBS folio_tokenizer folio_text nlohmann_json::nlohmann_json)
target_compile_definitions(sentencepiece_test
                           PRIVATE FOLIO_SENTENCEPIECE="${CMAKE_CURRENT_SOURCE_DIR}/sentencepiece.json")
folio_test(grammar_test grammar_test.cc grammar_refusal_test.cc
           LIBS folio_tokenizer folio_text folio_testing_model nlohmann_json::nlohmann_json)
folio_test(tool_chat_test tool_chat_test.cc LIBS folio_tokenizer folio_testing_model nlohmann_json::nlohmann_json)
target_compile_definitions(tool_chat_test PRIVATE FOLIO_ORACLE="${CMAKE_SOURCE_DIR}/tests/oracle")
folio_test(chat_template_test chat_template_test.cc
           LIBS folio_tokenizer folio_testing_model nlohmann_json::nlohmann_json)
target_compile_definitions(chat_template_test PRIVATE FOLIO_ORACLE="${CMAKE_SOURCE_DIR}/tests/oracle")
folio_test(tokenizer_json_test tokenizer_json_test.cc LIBS folio_tokenizer)
if(TARGET folio_model_source)
  folio_test(tokenizer_test tokenizer_test.cc
             LIBS folio_tokenizer folio_model_source nlohmann_json::nlohmann_json)
  folio_test(gguf_structure_test gguf_structure_test.cc LIBS folio_tokenizer folio_testing_model)
  target_compile_definitions(tokenizer_test PRIVATE FOLIO_ORACLE="${CMAKE_SOURCE_DIR}/tests/oracle")
endif()
