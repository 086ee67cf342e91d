//! The boundary between C++ and a static library in Rust. It lends and gives pointers, and turns errors and panics into
//! messages. The headers of these libraries say what a caller may do.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Items that belong to the caller, who gives them back to `free`.
#[repr(C)]
pub struct Owned<T> {
    data: *mut T,
    size: usize,
}

impl<T> Owned<T> {
    /// # Safety
    /// They come from `from`, and are freed once. Without a pointer there is nothing to free.
    pub unsafe fn free(self) {
        if !self.data.is_null() {
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.data, self.size)));
        }
    }
}

impl<T> From<Vec<T>> for Owned<T> {
    fn from(items: Vec<T>) -> Self {
        let size = items.len();
        Owned { data: Box::into_raw(items.into_boxed_slice()) as *mut T, size }
    }
}

impl From<String> for Owned<u8> {
    fn from(text: String) -> Self {
        text.into_bytes().into()
    }
}

/// Bytes that one side lends to the other. The pointer may be null when the size is 0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct View {
    data: *const u8,
    size: usize,
}

impl View {
    /// # Safety
    /// `data` points to `size` bytes that live for 'a, or `size` is 0.
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.size == 0 {
            return &[];
        }
        std::slice::from_raw_parts(self.data, self.size)
    }

    /// The error calls the text `what`.
    ///
    /// # Safety
    /// As `bytes`.
    pub unsafe fn text<'a>(self, what: &str) -> Result<&'a str, String> {
        std::str::from_utf8(self.bytes())
            .map_err(|e| format!("{what} is not UTF-8 (byte {})", e.valid_up_to()))
    }
}

impl From<&[u8]> for View {
    fn from(bytes: &[u8]) -> Self {
        View { data: bytes.as_ptr(), size: bytes.len() }
    }
}

/// An error as a function of C returns it: a number that is not 0, and a message.
pub trait Failure {
    fn panicked(message: String) -> Self;
    fn code(&self) -> i32;
    fn message(self) -> String;
}

/// For a library whose errors are all of one kind.
impl Failure for String {
    fn panicked(message: String) -> Self {
        message
    }

    fn code(&self) -> i32 {
        1
    }

    fn message(self) -> String {
        self
    }
}

/// Words about what `catch_unwind` or a joined thread gave.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let said = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    format!("panic: {}", said.unwrap_or("no message"))
}

/// Runs `work` and writes its result to `out`, or a message to `error` if it fails or panics. Gives 0 or the failure's code.
///
/// # Safety
/// Both pointers are valid for writing.
pub unsafe fn guarded<T, E: Failure>(
    out: *mut T,
    error: *mut Owned<u8>,
    work: impl FnOnce() -> Result<T, E>,
) -> i32 {
    let outcome = catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|panic| Err(E::panicked(panic_text(&*panic))));
    match outcome {
        Ok(value) => {
            out.write(value);
            0
        }
        Err(failure) => {
            let code = failure.code();
            error.write(failure.message().into());
            code
        }
    }
}
