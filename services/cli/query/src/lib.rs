//! This is the boundary to C. It takes and gives pointers and turns panics and errors into messages.
//! query_ffi.h says what each function does, `query` does the work.

mod numbers;
mod order;
mod query;
mod reason;
mod tree;

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};

use query::Query;

type Result<T> = std::result::Result<T, String>;

#[repr(C)]
pub struct Text {
    data: *mut u8,
    size: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct View {
    data: *const u8,
    size: usize,
}

impl View {
    /// Safety: `data` points to `size` bytes that live for 'a, or `size` is 0.
    unsafe fn text<'a>(self, what: &str) -> Result<&'a str> {
        if self.size == 0 {
            return Ok("");
        }
        std::str::from_utf8(std::slice::from_raw_parts(self.data, self.size))
            .map_err(|e| format!("{what} is not UTF-8 (byte {})", e.valid_up_to()))
    }
}

fn give(text: String) -> Text {
    let size = text.len();
    Text { data: Box::into_raw(text.into_bytes().into_boxed_slice()) as *mut u8, size }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

/// Runs `work` and writes its result to `out`, or a message to `error` if it fails or panics.
/// Safety: both pointers are valid for writing.
unsafe fn guarded<T>(out: *mut T, error: *mut Text, work: impl FnOnce() -> Result<T>) -> i32 {
    let outcome = catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(format!("panic: {}", panic_text(&*panic))));
    match outcome {
        Ok(value) => {
            out.write(value);
            0
        }
        Err(message) => {
            error.write(give(message));
            1
        }
    }
}

/// # Safety
/// See query_ffi.h, also for all functions below.
#[no_mangle]
pub unsafe extern "C" fn folio_query_compile(
    expression: View,
    query: *mut *mut Query,
    error: *mut Text,
) -> i32 {
    guarded(query, error, || {
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
    result: *mut Text,
    error: *mut Text,
) -> i32 {
    guarded(result, error, || Ok(give((*query).apply(json.text("the answer")?)?)))
}

/// # Safety
/// As above.
#[no_mangle]
pub unsafe extern "C" fn folio_query_free_text(text: Text) {
    if !text.data.is_null() {
        drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(text.data, text.size)));
    }
}
