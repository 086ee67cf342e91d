# folio_text: characters and stop strings of streamed text.
add_library(folio_text STATIC utf8.cc stop_matcher.cc)
target_link_libraries(folio_text PUBLIC folio_build absl::strings)
