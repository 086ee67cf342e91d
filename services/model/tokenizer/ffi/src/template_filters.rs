//! Filters and tests that Jinja defines in another way than minijinja does.

use minijinja::value::{Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind};

use crate::template_methods::{is_space, strip};
use crate::template_values::text_of;

pub fn add(env: &mut Environment<'static>) {
    env.add_filter("trim", |text: &Value, characters: Option<&str>| {
        strip(&text_of(text), characters, true, true).to_owned()
    });
    env.add_filter("length", length);
    env.add_filter("count", length);
    env.add_filter("int", int);
    env.add_filter("items", items);
    env.add_filter("title", title);
    env.add_test("number", |value: &Value| {
        matches!(value.kind(), ValueKind::Number | ValueKind::Bool)
    });
    env.add_test("iterable", |value: &Value| {
        is_sequence(value) || kind_is(value, ValueKind::Iterable)
    });
    env.add_test("sequence", is_sequence);
    env.add_test("callable", |value: &Value| kind_is(value, ValueKind::Plain));
}

fn kind_is(value: &Value, kind: ValueKind) -> bool {
    value.kind() == kind
}

/// Whether the value has a length and parts, as objects and an undefined value have too.
fn is_sequence(value: &Value) -> bool {
    matches!(
        value.kind(),
        ValueKind::Seq | ValueKind::Map | ValueKind::String | ValueKind::Undefined
    )
}

fn length(value: &Value) -> Result<usize, Error> {
    if value.is_undefined() {
        return Ok(0);
    }
    value.len().ok_or_else(|| {
        let message = format!("{} has no length", value.kind());
        Error::new(ErrorKind::InvalidOperation, message)
    })
}

/// An undefined value has none.
fn items(value: &Value) -> Result<Value, Error> {
    if value.is_undefined() {
        return Ok(Value::from(Vec::<Value>::new()));
    }
    minijinja::filters::items(value)
}

/// A word begins behind blanks, hyphens and opening brackets.
fn title(text: &Value) -> String {
    let mut inside = false;
    let mut titled = String::new();
    for letter in text_of(text).chars() {
        if inside {
            titled.extend(letter.to_lowercase());
        } else {
            titled.extend(letter.to_uppercase());
        }
        inside = !is_space(letter) && !"-({[<".contains(letter);
    }
    titled
}

/// A value that cannot be a number gives `default`, or 0.
fn int(value: &Value, default: Option<Value>) -> Value {
    let number = match value.as_str() {
        Some(text) => {
            let text = strip(text, None, true, true);
            match text.parse::<i64>() {
                Ok(number) => return number.into(),
                Err(_) => text.parse::<f64>().ok(),
            }
        }
        None if value.is_integer() => return value.clone(),
        None if value.kind() == ValueKind::Bool => return i64::from(value.is_true()).into(),
        None => f64::try_from(value.clone()).ok(),
    };
    match number.filter(|number| number.is_finite()) {
        Some(number) => Value::from(number as i64),
        None => default.unwrap_or_else(|| Value::from(0)),
    }
}
