//! One line of strace's output.

use std::path::PathBuf;

/// What a line is, without the thread and the time before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Line<'a> {
    /// A call with its result.
    Complete(&'a str),
    /// The beginning of a call that another thread's line came between.
    Unfinished(&'a str),
    /// The rest of such a call.
    Resumed(&'a str),
    /// The thread has ended.
    Ended,
    /// A signal came.
    Signal,
    /// None of strace's.
    Other,
}

/// The thread (0 if only one was traced) and what the line is.
pub fn line(text: &str) -> (u32, Line<'_>) {
    let mut rest = text.trim_start();
    let mut thread = 0;
    if let Some(after) = rest.strip_prefix("[pid")
        && let Some((number, after)) = after.split_once(']')
    {
        thread = number.trim().parse().unwrap_or(0);
        rest = after.trim_start();
    } else if let Some((number, after)) = rest.split_once(char::is_whitespace)
        && let Ok(number) = number.parse()
    {
        thread = number;
        rest = after.trim_start();
    }
    // Times: `12:34:56`, `12:34:56.789012`, `1700000000.123456`, `0.000012`.
    while let Some((word, after)) = rest.split_once(char::is_whitespace) {
        let is_time = word.contains([':', '.']) && word.bytes().all(|b| b.is_ascii_digit() || b == b':' || b == b'.');
        if !is_time {
            break;
        }
        rest = after.trim_start();
    }
    let line = if rest.starts_with("+++") {
        Line::Ended
    } else if rest.starts_with("---") {
        Line::Signal
    } else if let Some(resumed) = rest.strip_prefix("<... ") {
        resumed.split_once(" resumed>").map_or(Line::Other, |(_, rest)| Line::Resumed(rest))
    } else if let Some(begin) = rest.strip_suffix("<unfinished ...>") {
        Line::Unfinished(begin.trim_end())
    } else if rest.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_') && rest.contains('(') {
        Line::Complete(rest)
    } else {
        Line::Other
    };
    (thread, line)
}

/// A call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call<'a> {
    /// Its name.
    pub name: &'a str,
    /// As they are printed.
    pub arguments: Vec<&'a str>,
    /// What it returned; `None` if it failed or has not returned.
    pub result: Option<u64>,
    /// The result as a descriptor with its path.
    pub returned_descriptor: Option<(u64, PathBuf)>,
}

impl<'a> Call<'a> {
    /// `name(arguments) = result`.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (name, rest) = text.split_once('(')?;
        if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            return None;
        }
        let (arguments, end) = split(rest, b')')?;
        let result = rest.get(end..)?.trim_start().strip_prefix('=')?.trim_start();
        let word = result.split_once(' ').map_or(result, |(word, _)| word);
        // A path may have spaces: the descriptor is looked for in all of the rest.
        let returned_descriptor = descriptor(result).and_then(|(number, path)| Some((number, path?)));
        let result = match &returned_descriptor {
            Some((number, _)) => Some(*number),
            None => number(word),
        };
        Some(Self { name, arguments, result, returned_descriptor })
    }

    /// The argument at this place.
    pub fn argument(&self, at: usize) -> Option<&'a str> {
        self.arguments.get(at).copied()
    }
}

/// The elements of `[a, b]` or `{a=1, b=2}`; none if it is neither.
pub fn elements(text: &str) -> Vec<&str> {
    let close = match text.as_bytes().first() {
        Some(b'[') => b']',
        Some(b'{') => b'}',
        _ => return Vec::new(),
    };
    text.get(1..).and_then(|rest| split(rest, close)).map_or_else(Vec::new, |(elements, _)| elements)
}

/// Parts between commas up to the closing bracket, and the place after that.
fn split(text: &str, close: u8) -> Option<(Vec<&str>, usize)> {
    let bytes = text.as_bytes();
    let (mut parts, mut begin, mut depth, mut at) = (Vec::new(), 0, 0_u32, 0);
    let mut take = |begin: usize, end: usize| {
        let part = text.get(begin..end).unwrap_or_default().trim();
        if !part.is_empty() {
            parts.push(part);
        }
    };
    while let Some(&byte) = bytes.get(at) {
        match byte {
            b'"' => at = after_string(bytes, at)?,
            // A descriptor's path, `3</a b>`, perhaps with a device in it, `1</dev/pts/0<char 136:0>>`.
            b'<' if at > 0 && bytes.get(at - 1).is_some_and(u8::is_ascii_digit) => at = after_angles(bytes, at)?,
            b'<' if text.get(begin..at).is_some_and(|part| part.trim().ends_with("AT_FDCWD")) => {
                at = after_angles(bytes, at)?;
            }
            _ if depth == 0 && byte == close => {
                take(begin, at);
                return Some((parts, at + 1));
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.checked_sub(1)?,
            b',' if depth == 0 => {
                take(begin, at);
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The place of the quote that ends the string beginning at `at`.
fn after_string(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        at += 1;
        match bytes.get(at)? {
            b'\\' => at += 1,
            b'"' => return Some(at),
            _ => {}
        }
    }
}

/// The place of the angle that closes the one at `at`.
fn after_angles(bytes: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 0_u32;
    loop {
        match bytes.get(at)? {
            b'<' => depth += 1,
            // `->` is in the names of sockets.
            b'>' if at > 0 && bytes.get(at - 1) == Some(&b'-') => {}
            b'>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
        at += 1;
    }
}

/// A number, decimal, hexadecimal or octal as C writes them; `None` for negative ones.
pub fn number(text: &str) -> Option<u64> {
    let digits = text.split('<').next()?.trim();
    match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None if digits.len() > 1 && digits.starts_with('0') => u64::from_str_radix(digits, 8).ok(),
        None => digits.parse().ok(),
    }
}

/// `[4096]` or `[4096] => [8192]`: what the pointer of an offset pointed to; `None` for NULL.
pub fn pointed(text: &str) -> Option<&str> {
    text.strip_prefix('[')?.split_once(']').map(|(number, _)| number)
}

/// Whether a flag is in `O_RDWR|O_DIRECT`, or in `{flags=O_RDWR|O_DIRECT, …}`.
pub fn has_flag(text: &str, flag: &str) -> bool {
    !text.starts_with('"') && text.split(['|', '=', '{', '}', ',', ' ']).any(|word| word == flag)
}

/// `3</a/b>`: the number, and the path if it is that of a file (pipes, sockets and the
/// like have none, and neither has a file that has been deleted).
pub fn descriptor(text: &str) -> Option<(u64, Option<PathBuf>)> {
    let (digits, rest) = text.split_once('<').map_or((text, None), |(digits, rest)| (digits, Some(rest)));
    let number = digits.trim().parse().ok()?;
    let end = |rest: &str| after_angles(format!("<{rest}").as_bytes(), 0).map(|at| at - 1);
    let path = rest.and_then(|rest| rest.get(..end(rest)?)).filter(|path| path.starts_with('/'));
    let is_gone = |path: &str| path.ends_with(" (deleted)") || path.contains('<');
    let after = rest.and_then(|rest| rest.get(end(rest)? + 1..)).unwrap_or_default();
    Some((number, path.filter(|path| !is_gone(path) && !after.starts_with("(deleted)")).map(unescaped)))
}

/// Undoes C's escapes of bytes, which strace uses for what cannot be printed and for angles.
fn unescaped(text: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'\\' {
            bytes.push(first);
            continue;
        }
        let octal: Vec<u8> = after.iter().take(3).copied().take_while(|byte| matches!(byte, b'0'..=b'7')).collect();
        if octal.is_empty() {
            let Some((&code, after)) = after.split_first() else { break };
            rest = after;
            bytes.push(match code {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'v' => 0x0b,
                b'f' => 0x0c,
                other => other,
            });
        } else {
            let value = octal.iter().fold(0_u32, |value, digit| value * 8 + u32::from(digit - b'0'));
            bytes.push(u8::try_from(value & 0xff).unwrap_or_default());
            rest = after.get(octal.len()..).unwrap_or_default();
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}
