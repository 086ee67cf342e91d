// Leaves out of account what the Rust code of the tokenizer does: it is linked statically and not
// built for ThreadSanitizer, and its threads pass memory on by atomics that are not seen. The
// linker sends each call here (--wrap).
#include "services/model/tokenizer/ffi/tokenizer_ffi.h"
#include "tests/testing/tsan/announce.h"

using folio::testing::NotLookedAt;

extern "C" {

int __real_folio_tok_create(folio_tok_view, folio_tok_vocabulary**, folio_tok_bytes*);
int __real_folio_tok_encode(const folio_tok_vocabulary*, folio_tok_view, folio_tok_ids*,
                            folio_tok_bytes*);
int __real_folio_tok_encode_rest(const folio_tok_vocabulary*, folio_tok_view, folio_tok_ids*,
                                 folio_tok_bytes*);
int __real_folio_tok_compile(folio_tok_view, folio_tok_view, folio_tok_view, folio_tok_template**,
                             folio_tok_bytes*);
int __real_folio_tok_render(const folio_tok_template*, folio_tok_view, folio_tok_view, int64_t,
                            folio_tok_bytes*, folio_tok_bytes*);
void __real_folio_tok_free(folio_tok_vocabulary*);
void __real_folio_tok_free_template(folio_tok_template*);
void __real_folio_tok_free_bytes(folio_tok_bytes);
void __real_folio_tok_free_ids(folio_tok_ids);

int __wrap_folio_tok_create(folio_tok_view json, folio_tok_vocabulary** vocabulary,
                            folio_tok_bytes* error) {
  const NotLookedAt rust;
  return __real_folio_tok_create(json, vocabulary, error);
}

int __wrap_folio_tok_encode(const folio_tok_vocabulary* vocabulary, folio_tok_view text,
                            folio_tok_ids* ids, folio_tok_bytes* error) {
  const NotLookedAt rust;
  return __real_folio_tok_encode(vocabulary, text, ids, error);
}

int __wrap_folio_tok_encode_rest(const folio_tok_vocabulary* vocabulary, folio_tok_view text,
                                 folio_tok_ids* ids, folio_tok_bytes* error) {
  const NotLookedAt rust;
  return __real_folio_tok_encode_rest(vocabulary, text, ids, error);
}

int __wrap_folio_tok_compile(folio_tok_view source, folio_tok_view bos, folio_tok_view eos,
                             folio_tok_template** chat, folio_tok_bytes* error) {
  const NotLookedAt rust;
  return __real_folio_tok_compile(source, bos, eos, chat, error);
}

int __wrap_folio_tok_render(const folio_tok_template* chat, folio_tok_view messages,
                            folio_tok_view mark, int64_t now, folio_tok_bytes* text,
                            folio_tok_bytes* error) {
  const NotLookedAt rust;
  return __real_folio_tok_render(chat, messages, mark, now, text, error);
}

void __wrap_folio_tok_free(folio_tok_vocabulary* vocabulary) {
  const NotLookedAt rust;
  __real_folio_tok_free(vocabulary);
}

void __wrap_folio_tok_free_template(folio_tok_template* chat) {
  const NotLookedAt rust;
  __real_folio_tok_free_template(chat);
}

void __wrap_folio_tok_free_bytes(folio_tok_bytes bytes) {
  const NotLookedAt rust;
  __real_folio_tok_free_bytes(bytes);
}

void __wrap_folio_tok_free_ids(folio_tok_ids ids) {
  const NotLookedAt rust;
  __real_folio_tok_free_ids(ids);
}

}  // extern "C"
