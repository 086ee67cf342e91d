//! The filter `tojson`, as Hugging Face defines it: `json.dumps` of Python.

use std::fmt::Write;

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind};

use crate::template_values::{float, is_mark};

struct Writer {
    text: String,
    ensure_ascii: bool,
    sort_keys: bool,
    indent: Option<String>, // of one level
    item_separator: String,
    key_separator: String,
}

/// `json.dumps(value, ensure_ascii=…, indent=…, separators=…, sort_keys=…)`, ensure_ascii being false if it is not given.
pub fn to_json(value: &Value, kwargs: Kwargs) -> Result<String, Error> {
    let indent: Option<Value> = kwargs.get("indent")?;
    let indent = match indent.filter(|indent| !indent.is_none()) {
        None => None,
        Some(width) => Some(match width.as_str() {
            Some(text) => text.to_owned(),
            None => " ".repeat(usize::try_from(i64::try_from(width)?.clamp(0, 64)).unwrap_or(0)),
        }),
    };
    let separators: Option<Vec<String>> = kwargs.get("separators")?;
    let (item_separator, key_separator) = match separators.as_deref() {
        Some([item, key]) => (item.clone(), key.clone()),
        Some(_) => return Err(wrong("separators are not a pair".to_owned())),
        None if indent.is_some() => (",".to_owned(), ": ".to_owned()),
        None => (", ".to_owned(), ": ".to_owned()),
    };
    let mut writer = Writer {
        text: String::new(),
        ensure_ascii: kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        sort_keys: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        indent,
        item_separator,
        key_separator,
    };
    kwargs.assert_all_used()?;
    writer.value(value, 0)?;
    Ok(writer.text)
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::BadSerialization, message)
}

impl Writer {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        match value.kind() {
            ValueKind::None => self.text.push_str("null"),
            ValueKind::Bool => self.text.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number if value.is_integer() => self.text.push_str(&value.to_string()),
            ValueKind::Number => self.text.push_str(&float(f64::try_from(value.clone())?)),
            ValueKind::String => self.quoted(value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => self.list(value, depth)?,
            ValueKind::Map => self.object(value, depth)?,
            other => return Err(wrong(format!("{other} is not JSON serializable"))),
        }
        Ok(())
    }

    fn list(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let mut count = 0;
        self.text.push('[');
        for item in value.try_iter()? {
            self.begin(count, depth);
            self.value(&item, depth + 1)?;
            count += 1;
        }
        self.end(count, depth, ']');
        Ok(())
    }

    fn object(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        let pairs = value.as_object().and_then(|object| object.try_iter_pairs());
        let mut pairs: Vec<(Value, Value)> = pairs.into_iter().flatten().collect();
        if self.sort_keys {
            pairs.sort_by(|a, b| a.0.cmp(&b.0));
        }
        self.text.push('{');
        for (count, (key, item)) in pairs.iter().enumerate() {
            self.begin(count, depth);
            match key.as_str() {
                Some(name) => self.quoted(name),
                None => {
                    self.text.push('"');
                    self.value(key, depth)?;
                    self.text.push('"');
                }
            }
            self.text.push_str(&self.key_separator);
            self.value(item, depth + 1)?;
        }
        self.end(pairs.len(), depth, '}');
        Ok(())
    }

    fn begin(&mut self, count: usize, depth: usize) {
        if count > 0 {
            self.text.push_str(&self.item_separator);
        }
        self.line(depth + 1);
    }

    fn end(&mut self, count: usize, depth: usize, bracket: char) {
        if count > 0 {
            self.line(depth);
        }
        self.text.push(bracket);
    }

    fn line(&mut self, depth: usize) {
        let Some(indent) = &self.indent else { return };
        self.text.push('\n');
        for _ in 0..depth {
            self.text.push_str(indent);
        }
    }

    fn quoted(&mut self, text: &str) {
        self.text.push('"');
        for letter in text.chars() {
            match letter {
                '"' => self.text.push_str("\\\""),
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                '\r' => self.text.push_str("\\r"),
                '\t' => self.text.push_str("\\t"),
                '\u{8}' => self.text.push_str("\\b"),
                '\u{c}' => self.text.push_str("\\f"),
                '\0'..='\u{1f}' => self.escaped(letter),
                ' '..='~' => self.text.push(letter),
                _ if !self.ensure_ascii || is_mark(letter) => self.text.push(letter),
                _ => self.escaped(letter),
            }
        }
        self.text.push('"');
    }

    fn escaped(&mut self, letter: char) {
        let mut units = [0; 2];
        for unit in letter.encode_utf16(&mut units) {
            write!(self.text, "\\u{unit:04x}").expect("a String takes all");
        }
    }
}
