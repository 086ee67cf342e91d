// tokenizer_ffi is the C interface of a static library made from the `tokenizers`, `minijinja` and
// `llguidance` crates. Only tokenizer.cc and grammar.cc include it.
//
// Functions that can fail return 0 on success. Otherwise *error holds a message in UTF-8 and
// nothing else was written. The result is then a folio_tok_failure. A folio_tok_bytes,
// folio_tok_ids or object that a function returns belongs to the caller, who passes it to the free
// function of its kind. Freeing an empty one does nothing. A panic in Rust becomes an error.
// Several threads may read an object at once.
#ifndef FOLIO_SERVICES_MODEL_TOKENIZER_FFI_TOKENIZER_FFI_H_
#define FOLIO_SERVICES_MODEL_TOKENIZER_FFI_TOKENIZER_FFI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct folio_tok_vocabulary folio_tok_vocabulary;
typedef struct folio_tok_template folio_tok_template;
typedef struct folio_tok_environment folio_tok_environment;
typedef struct folio_tok_grammar folio_tok_grammar;
typedef struct folio_tok_state folio_tok_state;

enum folio_tok_failure {
  FOLIO_TOK_INPUT = 1,     /* what the caller gave will not do */
  FOLIO_TOK_EXHAUSTED = 2, /* a limit was reached, or a crate panicked */
  FOLIO_TOK_NO_TOKEN = 3,  /* the vocabulary has no token that fits */
};

typedef struct {
  uint8_t* data;
  size_t size;
} folio_tok_bytes;

typedef struct {
  uint32_t* data;
  size_t size;
} folio_tok_ids;

/* Bytes that the caller lends for the time of the call. data may be null when size is 0. */
typedef struct {
  const uint8_t* data;
  size_t size;
} folio_tok_view;

/* `json` is a tokenizer.json. Its truncation and padding are ignored. */
int folio_tok_create(folio_tok_view json, folio_tok_vocabulary** vocabulary,
                     folio_tok_bytes* error);
void folio_tok_free(folio_tok_vocabulary* vocabulary);

/* One more than the largest id, added tokens included. */
uint32_t folio_tok_size(const folio_tok_vocabulary* vocabulary);

/* Ids of `text`. Special tokens in it are recognised, none are added. Fails when it is not UTF-8.
 */
int folio_tok_encode(const folio_tok_vocabulary* vocabulary, folio_tok_view text,
                     folio_tok_ids* ids, folio_tok_bytes* error);

/* As folio_tok_encode for a text that continues another one: the space that some tokenizers put in
   front of a text is left out. It still comes after an added token. */
int folio_tok_encode_rest(const folio_tok_vocabulary* vocabulary, folio_tok_view text,
                          folio_tok_ids* ids, folio_tok_bytes* error);

/* The raw bytes of a token, valid until the vocabulary is freed. Empty for an id without a token.
 */
folio_tok_view folio_tok_token(const folio_tok_vocabulary* vocabulary, uint32_t id);
/* 1 for an added token marked special. */
int folio_tok_is_special(const folio_tok_vocabulary* vocabulary, uint32_t id);

/* 1 when the first space of a whole text was put in front of it, and is not of the text. */
int folio_tok_drops_space(const folio_tok_vocabulary* vocabulary);

/* `source` is Jinja, as in Hugging Face's chat_template. The tokens are texts for it. */
int folio_tok_compile(folio_tok_view source, folio_tok_view bos_token, folio_tok_view eos_token,
                      folio_tok_template** chat, folio_tok_bytes* error);
void folio_tok_free_template(folio_tok_template* chat);

/* The rendered template with the generation prompt. `values` is a JSON object of variables for it:
   {"messages": [{"role": .., "content": ..}, ..], ..}, of which `tools` and `documents` are none if
   they are absent. `mark` is a character of Unicode's private use in texts of the values, or empty.
   It comes out as it is, also where the template escapes such characters. `now` is in seconds since
   1970, in the zone that strftime_now shall show. Memory and time of a rendering are bounded. One
   that passes a bound fails and keeps that memory until the process ends, so after three of them
   all fail. */
int folio_tok_render(const folio_tok_template* chat, folio_tok_view values, folio_tok_view mark,
                     int64_t now, folio_tok_bytes* text, folio_tok_bytes* error);

/* What constraints need to know of the vocabulary, which takes some time and memory to find out.
   The tokens end an answer: a constraint allows them only where it may end. */
int folio_tok_grammars(const folio_tok_vocabulary* vocabulary, const uint32_t* end_tokens,
                       size_t end_token_count, folio_tok_environment** environment,
                       folio_tok_bytes* error);
void folio_tok_free_grammars(folio_tok_environment* environment);

/* `kind` is 0 for a JSON Schema, 1 for a regex and 2 for a Lark grammar. Memory and time are
   bounded as those of folio_tok_render. The grammar may outlive the environment. */
int folio_tok_compile_grammar(const folio_tok_environment* environment, uint32_t kind,
                              folio_tok_view text, folio_tok_grammar** grammar,
                              folio_tok_bytes* error);
void folio_tok_free_grammar(folio_tok_grammar* grammar);

/* The place of one answer, which may outlive the grammar. One thread at a time may use it. */
int folio_tok_start(const folio_tok_grammar* grammar, folio_tok_state** state,
                    folio_tok_bytes* error);
void folio_tok_free_state(folio_tok_state* state);

/* Bit t % 32 of words[t / 32] says whether token t may come next. After a failure the words hold
   anything. A token that is not allowed fails with FOLIO_TOK_INPUT and changes nothing. */
int folio_tok_mask(folio_tok_state* state, uint32_t* words, size_t word_count,
                   folio_tok_bytes* error);
int folio_tok_accept(folio_tok_state* state, uint32_t token, folio_tok_bytes* error);
/* 1 when nothing may follow. */
int folio_tok_stopped(const folio_tok_state* state);

void folio_tok_free_bytes(folio_tok_bytes bytes);
void folio_tok_free_ids(folio_tok_ids ids);

#ifdef __cplusplus
}
#endif

#endif /* FOLIO_SERVICES_MODEL_TOKENIZER_FFI_TOKENIZER_FFI_H_ */
