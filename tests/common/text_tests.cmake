folio_test(utf8_test utf8_test.cc LIBS folio_text)
folio_test(stop_matcher_test stop_matcher_test.cc LIBS folio_text)
