//! The tags `generation` and `endgeneration`, between which a template writes an answer. Hugging Face uses them for training.
//! Their text has a scope of its own, which is what `with` gives.

/// `source` with `with` and `endwith` in place of these tags, and with lines that end as Jinja's do.
pub fn without_generation(source: &str) -> String {
    let source = source.replace("\r\n", "\n").replace('\r', "\n");
    let mut text = String::with_capacity(source.len());
    let mut rest = source.as_str();
    let mut raw = false;
    while let Some(begin) =
        rest.find("{{").into_iter().chain(rest.find("{%")).chain(rest.find("{#")).min()
    {
        let length = tag_length(&rest[begin..], raw);
        let tag = &rest[begin..begin + length];
        text.push_str(&rest[..begin]);
        let (name, place) = name_of(tag);
        raw = if raw { name != "endraw" } else { name == "raw" };
        let replaced = match name {
            "generation" if !raw => "with",
            "endgeneration" if !raw => "endwith",
            _ => name,
        };
        text.push_str(&tag[..place]);
        text.push_str(replaced);
        text.push_str(&tag[place + name.len()..]);
        rest = &rest[begin + length..];
    }
    text + rest
}

/// The bytes of the tag at the beginning, or two where no tag is.
fn tag_length(text: &str, raw: bool) -> usize {
    let end = match &text[..2] {
        "{%" => "%}",
        _ if raw => return 2,
        "{{" => "}}",
        _ => "#}",
    };
    if raw || end == "#}" {
        return text[2..].find(end).map_or(2, |at| at + 4);
    }
    let bytes = text.as_bytes();
    let mut quote = None;
    let mut at = 2;
    while at < bytes.len() {
        match quote {
            Some(_) if bytes[at] == b'\\' => at += 1,
            Some(open) if bytes[at] == open => quote = None,
            Some(_) => {}
            None if bytes[at..].starts_with(end.as_bytes()) => return at + 2,
            None if bytes[at] == b'"' || bytes[at] == b'\'' => quote = Some(bytes[at]),
            None => {}
        }
        at += 1;
    }
    2
}

/// The first word of a block, and where it begins. Empty for other tags.
fn name_of(tag: &str) -> (&str, usize) {
    if !tag.starts_with("{%") || tag.len() < 4 {
        return ("", tag.len());
    }
    let inner = tag[2..].trim_start_matches(['-', '+']).trim_start();
    let begin = tag.len() - inner.len();
    let end = inner.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(0);
    (&inner[..end], begin)
}
