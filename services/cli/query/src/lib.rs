//! These are the functions of query_ffi.h, which says what each does. `query` does the work.

mod numbers;
mod order;
mod query;
mod reason;
mod tree;

use folio_boundary::{guarded, Owned, View};
use query::Query;

type Result<T> = std::result::Result<T, String>;

/// # Safety
/// See query_ffi.h, also for all functions below.
#[no_mangle]
pub unsafe extern "C" fn folio_query_compile(
    expression: View,
    query: *mut *mut Query,
    error: *mut Owned<u8>,
) -> i32 {
    guarded::<_, String>(query, error, || {
        Ok(Box::into_raw(Box::new(Query::compile(expression.text("the expression")?)?)))
    })
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_query_free(query: *mut Query) {
    if !query.is_null() {
        drop(Box::from_raw(query));
    }
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_query_apply(
    query: *const Query,
    json: View,
    result: *mut Owned<u8>,
    error: *mut Owned<u8>,
) -> i32 {
    guarded::<_, String>(result, error, || Ok((*query).apply(json.text("the answer")?)?.into()))
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_query_free_text(text: Owned<u8>) {
    text.free();
}
