//! The values of a chat template, which print as Python's do: `str(value)` and `repr(value)`.

use std::cell::RefCell;
use std::fmt;
use std::fmt::Write;
use std::sync::Arc;

use minijinja::value::{DynObject, Enumerator, Object, ObjectRepr, Value, ValueKind};

thread_local! {
    // A character of the private use area that stands in texts of this thread's rendering. It is printed as it is.
    static MARK: RefCell<String> = const { RefCell::new(String::new()) };
}

pub fn set_mark(mark: &str) {
    MARK.with(|kept| mark.clone_into(&mut kept.borrow_mut()));
}

pub fn is_mark(letter: char) -> bool {
    MARK.with(|mark| mark.borrow().chars().eq([letter]))
}

/// A list or an object of the chat. Templates join it to texts, where minijinja's own ones print as Rust's.
#[derive(Debug)]
struct Container(DynObject);

impl Object for Container {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        self.0.repr()
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.0.get_value(key)
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.0.enumerate()
    }

    fn render(self: &Arc<Self>, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_repr(&Value::from_dyn_object(self.0.clone()), out)
    }
}

pub fn from_json(json: serde_json::Value) -> Value {
    let value: Value = match json {
        serde_json::Value::Array(list) => list.into_iter().map(from_json).collect(),
        serde_json::Value::Object(fields) => {
            fields.into_iter().map(|(name, value)| (Value::from(name), from_json(value))).collect()
        }
        plain => return Value::from_serialize(plain),
    };
    match value.as_object() {
        Some(object) => Value::from_object(Container(object.clone())),
        None => value,
    }
}

/// `str(value)`.
pub fn text_of(value: &Value) -> String {
    let mut text = String::new();
    write_text(value, &mut text).expect("a String takes all");
    text
}

pub fn write_text(value: &Value, out: &mut impl Write) -> fmt::Result {
    match value.as_str() {
        Some(text) => out.write_str(text),
        None if value.is_undefined() => Ok(()),
        None => write_repr(value, out),
    }
}

fn write_repr(value: &Value, out: &mut impl Write) -> fmt::Result {
    match value.kind() {
        ValueKind::String => write_quoted(value.as_str().unwrap_or_default(), out),
        ValueKind::Undefined => out.write_str("Undefined"),
        ValueKind::Number if !value.is_integer() => match f64::try_from(value.clone()) {
            Ok(number) => out.write_str(&float(number)),
            Err(_) => write!(out, "{value}"),
        },
        ValueKind::Seq | ValueKind::Iterable => {
            out.write_char('[')?;
            for (i, item) in value.try_iter().into_iter().flatten().enumerate() {
                out.write_str(if i > 0 { ", " } else { "" })?;
                write_repr(&item, out)?;
            }
            out.write_char(']')
        }
        ValueKind::Map => {
            out.write_char('{')?;
            let object = value.as_object();
            let pairs = object.and_then(|object| object.try_iter_pairs()).into_iter().flatten();
            for (i, (key, item)) in pairs.enumerate() {
                out.write_str(if i > 0 { ", " } else { "" })?;
                write_repr(&key, out)?;
                out.write_str(": ")?;
                write_repr(&item, out)?;
            }
            out.write_char('}')
        }
        _ => write!(out, "{value}"),
    }
}

/// The shortest digits that give the number, with an exponent as Python has it.
pub fn float(number: f64) -> String {
    if !number.is_finite() {
        return if number.is_nan() { "nan".to_owned() } else { number.to_string() };
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number != 0.0 && !(-4..16).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", exponent.abs());
    }
    let plain = number.to_string();
    if plain.contains('.') {
        plain
    } else {
        plain + ".0"
    }
}

fn write_quoted(text: &str, out: &mut impl Write) -> fmt::Result {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.write_char(quote)?;
    for letter in text.chars() {
        match letter {
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            _ if letter == quote => write!(out, "\\{letter}")?,
            _ if is_printable(letter) || is_mark(letter) => out.write_char(letter)?,
            _ => match letter as u32 {
                code @ 0..=0xff => write!(out, "\\x{code:02x}")?,
                code @ 0..=0xffff => write!(out, "\\u{code:04x}")?,
                code => write!(out, "\\U{code:08x}")?,
            },
        }
    }
    out.write_char(quote)
}

/// Python and Rust escape the same categories of Unicode. Rust also escapes a combining character, but only
/// at the beginning of a text.
fn is_printable(letter: char) -> bool {
    if letter.is_ascii() {
        return !letter.is_ascii_control();
    }
    let mut bytes = [b'a'; 5];
    let length = 1 + letter.encode_utf8(&mut bytes[1..]).len();
    let text = std::str::from_utf8(&bytes[..length]).unwrap_or_default();
    text.escape_debug().nth(1) == Some(letter)
}
