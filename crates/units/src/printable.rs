//! Text that came from somewhere else, made fit for a terminal and a log.
//!
//! The name of a file, of an NBD export or of an NVMe host is whatever somebody chose. Printed as it is, it can
//! move the cursor, change colours, run a terminal's functions, or end a line and begin one that seems to be the
//! program's own. These two forms keep all that can be read and escape the rest.

use std::fmt::{self, Write};
use std::path::Path;

/// A name in one piece: [`printable`] text in which a backslash is escaped too, so that two different names never
/// look alike and the name can be read back.
///
/// What is not UTF-8 is written as `\xNN`, control characters as `\n`, `\t`, `\r` or `\u{NN}`, and so is what
/// changes the direction or presence of other characters (bidirectional controls, zero-width characters, line and
/// paragraph separators).
///
/// ```
/// use units::Printable;
///
/// assert_eq!(Printable::text("db.sqlite").to_string(), "db.sqlite");
/// assert_eq!(Printable::text("a\nready at b\u{1b}[2J").to_string(), r"a\nready at b\u{1b}[2J");
/// assert_eq!(Printable::bytes(b"caf\xe9").to_string(), r"caf\xe9");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Printable<'a>(&'a [u8]);

impl<'a> Printable<'a> {
    /// A name that is text.
    pub fn text(text: &'a str) -> Self {
        Self(text.as_bytes())
    }

    /// A name that may be anything.
    pub fn bytes(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The path of a file.
    pub fn path<P: AsRef<Path> + ?Sized>(path: &'a P) -> Self {
        Self(path.as_ref().as_os_str().as_encoded_bytes())
    }
}

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character {
                    '\\' => f.write_str(r"\\")?,
                    character => write_printable(f, character)?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, r"\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// A message on one line: what a terminal or a reader of lines would take for more than text is escaped, and
/// backslashes stay, since a message has its names escaped already.
///
/// ```
/// assert_eq!(units::printable(r"client \n said").as_ref(), r"client \n said");
/// assert_eq!(units::printable("a\nb").as_ref(), r"a\nb");
/// ```
pub fn printable(text: &str) -> std::borrow::Cow<'_, str> {
    if text.chars().all(is_plain) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        // Writing to a String does not fail.
        let _ = write_printable(&mut escaped, character);
    }
    escaped.into()
}

/// Text of several lines: [`printable`] but for the ends of lines and tabs, for what may have others' words within.
///
/// ```
/// assert_eq!(units::printable_lines("a\n\tb\u{1b}").as_ref(), "a\n\tb\\u{1b}");
/// ```
pub fn printable_lines(text: &str) -> std::borrow::Cow<'_, str> {
    let passes = |character: char| matches!(character, '\n' | '\t') || is_plain(character);
    if text.chars().all(passes) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        // Writing to a String does not fail.
        let _ =
            if passes(character) { escaped.write_char(character) } else { write_printable(&mut escaped, character) };
    }
    escaped.into()
}

fn write_printable(out: &mut impl Write, character: char) -> fmt::Result {
    match character {
        character if is_plain(character) => out.write_char(character),
        '\n' | '\r' | '\t' => write!(out, "{}", character.escape_default()),
        character => write!(out, "{}", character.escape_unicode()),
    }
}

/// Whether a terminal shows the character and does nothing else.
pub fn is_plain(character: char) -> bool {
    let changes_others = matches!(
        character,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    );
    !character.is_control() && !changes_others
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    /// The name that an escaped one stands for.
    fn read_back(text: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            rest = &rest[character.len_utf8()..];
            if character != '\\' {
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            let kind = rest.chars().next().unwrap();
            rest = &rest[1..];
            match kind {
                '\\' => bytes.push(b'\\'),
                'n' => bytes.push(b'\n'),
                'r' => bytes.push(b'\r'),
                't' => bytes.push(b'\t'),
                'x' => {
                    bytes.push(u8::from_str_radix(&rest[..2], 16).unwrap());
                    rest = &rest[2..];
                }
                'u' => {
                    let (code, after) = rest[1..].split_once('}').unwrap();
                    let character = char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap();
                    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                    rest = after;
                }
                other => panic!("escape {other}"),
            }
        }
        bytes
    }

    /// Every byte, pairs with each of them, and every character: nothing but plain text comes out, and the name
    /// can be told from it.
    #[test]
    fn names_are_plain_and_can_be_read_back() {
        let mut names: Vec<Vec<u8>> =
            (0..=255).flat_map(|a| [vec![a], vec![b'n', a, b'\\'], vec![0xe2, a, 0x80]]).collect();
        names.extend((0..=0x10ffff).filter_map(char::from_u32).map(|c| c.to_string().into_bytes()));
        for name in names {
            let text = Printable::bytes(&name).to_string();
            assert!(text.chars().all(is_plain), "{name:?} became {text:?}");
            assert_eq!(read_back(&text), name, "{text}");
            assert_eq!(printable(&text), text, "escaped twice");
        }
    }

    #[test]
    fn text_that_people_write_stays() {
        for text in ["db.sqlite", "Größe 5 µs ± 1", "日本語", "a b", "emoji 🦀", "\"'$`*"] {
            assert_eq!(Printable::text(text).to_string(), text);
            assert_eq!(printable(text), text);
        }
    }

    #[test]
    fn what_acts_on_a_terminal_does_not() {
        let path = Path::new(OsStr::from_bytes(b"/srv/\x1b]0;title\x07\xff\n"));
        assert_eq!(Printable::path(path).to_string(), r"/srv/\u{1b}]0;title\u{7}\xff\n");
        assert_eq!(printable("x\u{202e}gpj.exe\u{9b}2J\r"), r"x\u{202e}gpj.exe\u{9b}2J\r");
    }
}
