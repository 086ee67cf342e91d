//! A message for the caller, and its kind as tokenizer_ffi.h numbers it.

#[derive(Clone, Copy)]
pub enum Kind {
    Input = 1,
    Exhausted = 2,
    NoToken = 3,
}

pub struct Failure {
    pub kind: Kind,
    pub message: String,
}

impl Failure {
    pub fn input(message: String) -> Self {
        Failure { kind: Kind::Input, message }
    }

    pub fn exhausted(message: String) -> Self {
        Failure { kind: Kind::Exhausted, message }
    }

    pub fn no_token() -> Self {
        let message = "no token of the vocabulary fits".to_owned();
        Failure { kind: Kind::NoToken, message }
    }
}

impl folio_boundary::Failure for Failure {
    fn panicked(message: String) -> Self {
        Failure::exhausted(message)
    }

    fn code(&self) -> i32 {
        self.kind as i32
    }

    fn message(self) -> String {
        self.message
    }
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        Failure::input(message)
    }
}
