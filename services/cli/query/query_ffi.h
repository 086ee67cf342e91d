// query_ffi is the C interface of a static library made from the `jmespath` crate. Only
// json_query.cc includes it.
//
// Functions that can fail return 0 on success. Otherwise *error holds a message in UTF-8 and
// nothing else was written. A folio_query or folio_query_text that a function returns belongs to
// the caller, who passes it to the free function of its kind. Freeing an empty one does nothing. A
// panic in Rust becomes an error. Several threads may use a query at once.
#ifndef FOLIO_SERVICES_CLI_QUERY_QUERY_FFI_H_
#define FOLIO_SERVICES_CLI_QUERY_QUERY_FFI_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct folio_query folio_query;

typedef struct {
  uint8_t* data;
  size_t size;
} folio_query_text;

/* Bytes that the caller lends for the time of the call. data may be null when size is 0. */
typedef struct {
  const uint8_t* data;
  size_t size;
} folio_query_view;

/* Fails also for functions that do not exist, or that take another number of arguments. */
int folio_query_compile(folio_query_view expression, folio_query** query, folio_query_text* error);
void folio_query_free(folio_query* query);

/* The result is JSON in one line. Properties have the order of the expression or of `json`, and are
   in the order of the alphabet where neither has an object of the same properties. A number that
   is whole has no fraction. Fails when a function does not fit its arguments. */
int folio_query_apply(const folio_query* query, folio_query_view json, folio_query_text* result,
                      folio_query_text* error);

void folio_query_free_text(folio_query_text text);

#ifdef __cplusplus
}
#endif

#endif /* FOLIO_SERVICES_CLI_QUERY_QUERY_FFI_H_ */
