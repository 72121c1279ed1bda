//! Keys and values as text: a line an entry, that says every byte and can be read again.

use betree::Entry;
use serde_json::{Map, Value, json};

/// `KEY<tab>VALUE`, where what is no printable ASCII character is escaped as in a Rust string.
pub fn line(key: &[u8], value: &[u8]) -> String {
    format!("{}\t{}", key.escape_ascii(), value.escape_ascii())
}

fn put(object: &mut Map<String, Value>, name: &str, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => object.insert(name.to_owned(), json!(text)),
        Err(_) => object.insert(format!("{name}_hex"), json!(hex(bytes))),
    };
}

/// An object with `key` and `value` where they are UTF-8, otherwise `key_hex` and `value_hex`; null for no value.
pub fn json_line(key: &[u8], value: Option<&[u8]>) -> Value {
    let mut object = Map::new();
    put(&mut object, "key", key);
    match value {
        Some(value) => put(&mut object, "value", value),
        None => drop(object.insert("value".to_owned(), Value::Null)),
    }
    Value::Object(object)
}

/// The same of a key alone.
pub fn json_key(key: &[u8]) -> Value {
    let mut object = Map::new();
    put(&mut object, "key", key);
    Value::Object(object)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The entry of a line that [`line()`] made, or that somebody wrote by hand.
///
/// # Errors
///
/// What is wrong with it.
pub fn parse(line: &[u8]) -> Result<Entry, String> {
    let mut parts = line.splitn(2, |byte| *byte == b'\t');
    match (parts.next(), parts.next()) {
        (Some(key), Some(value)) => Ok((unescape(key)?, unescape(value)?)),
        _ => Err("there is no tab between a key and a value".to_owned()),
    }
}

/// The bytes that a text with escapes stands for.
///
/// # Errors
///
/// What is no escape.
pub fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        bytes.push(match rest.next() {
            Some(b't') => b'\t',
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b'0') => 0,
            Some(quoted @ (b'\\' | b'\'' | b'"')) => quoted,
            Some(b'x') => {
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                match (digit(rest.next()), digit(rest.next())) {
                    (Some(high), Some(low)) => (high * 16 + low) as u8,
                    _ => return Err("\\x without two hexadecimal digits".to_owned()),
                }
            }
            Some(other) => return Err(format!("\\{} is no escape; a backslash is \\\\", char::from(other))),
            None => return Err("a backslash at the end; a backslash is \\\\".to_owned()),
        });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        let text = line(&all, b"a\tb\\c\n");
        assert!(text.is_ascii() && !text.contains('\n') && text.matches('\t').count() == 1);
        assert_eq!(parse(text.as_bytes()), Ok((all, b"a\tb\\c\n".to_vec())));
    }

    #[test]
    fn what_is_no_entry_says_why() {
        for (line, why) in
            [("key", "no tab"), ("a\tb\\q", "no escape"), ("a\t\\x1", "hexadecimal"), ("a\t\\", "the end")]
        {
            let error = parse(line.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    #[test]
    fn json_says_what_is_no_text_in_hexadecimal() {
        assert_eq!(json_line(b"a", Some(b"\xff\x00")), json!({ "key": "a", "value_hex": "ff00" }));
    }
}
