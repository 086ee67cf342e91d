//! Numbers outside of literals, which are places in a list. The crate panics at some.

/// The byte where a number begins that the crate cannot read.
pub fn unreadable(text: &str) -> Option<usize> {
    let mut rest = text.char_indices().peekable();
    while let Some((at, c)) = rest.next() {
        match c {
            '\'' | '"' | '`' => {
                while let Some((_, inside)) = rest.next() {
                    match inside {
                        '\\' => drop(rest.next()),
                        _ if inside == c => break,
                        _ => {}
                    }
                }
            }
            'a'..='z' | 'A'..='Z' | '_' => {
                while rest.next_if(|(_, c)| c.is_ascii_alphanumeric() || *c == '_').is_some() {}
            }
            _ if c.is_numeric() => {
                while rest.next_if(|(_, c)| c.is_ascii_digit()).is_some() {}
                let end = rest.peek().map_or(text.len(), |(at, _)| *at);
                if text[at..end].parse::<i32>().is_err() {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}
