//! Lines of a job file, cut into sections and settings with their places.

use std::collections::BTreeMap;

use super::{ParseErrorKind, Span};

/// A line that means something.
pub(super) enum Line {
    /// `[name]`, on a line counted from 1.
    Section { name: String, line: usize },
    /// `key`, `key=value`.
    Setting(Setting),
}

/// One option as given.
pub(super) struct Setting {
    pub key: String,
    pub key_span: Span,
    /// After variables were put in; `None` for a bare key.
    pub value: Option<String>,
    /// Of the value as written; of the key for a bare key.
    pub value_span: Span,
}

type Fault = (Span, ParseErrorKind);

/// Cuts the file into lines; the first fault ends it.
pub(super) fn lines(text: &[u8], variables: &BTreeMap<String, String>) -> Result<Vec<Line>, Fault> {
    let text = std::str::from_utf8(text).map_err(|error| {
        let offset = error.valid_up_to();
        let before = &text[..offset];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |position| position + 1);
        let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
        (Span { line, column, offset, length: 1 }, ParseErrorKind::NotText)
    })?;
    let mut result = Vec::new();
    let mut offset = 0;
    for (number, whole) in (1..).zip(text.split('\n')) {
        let place = WithinLine { number, whole, offset };
        if let Some(line) = place.read(variables)? {
            result.push(line);
        }
        offset += whole.len() + 1;
    }
    Ok(result)
}

/// Cuts `key=value` given beside a file, as its `number`th.
pub(super) fn setting(text: &str, number: usize, variables: &BTreeMap<String, String>) -> Result<Setting, Fault> {
    WithinLine { number, whole: text, offset: 0 }.setting(text.trim(), variables)
}

struct WithinLine<'a> {
    number: usize,
    whole: &'a str,
    offset: usize,
}

impl<'a> WithinLine<'a> {
    /// The place of `part`, a slice of this line.
    fn span(&self, part: &str) -> Span {
        let start = (part.as_ptr() as usize).saturating_sub(self.whole.as_ptr() as usize).min(self.whole.len());
        let column = self.whole.get(..start).map_or(start, |before| before.chars().count()) + 1;
        Span { line: self.number, column, offset: self.offset + start, length: part.len() }
    }

    fn read(&self, variables: &BTreeMap<String, String>) -> Result<Option<Line>, Fault> {
        // fio cuts a line at the first comment sign wherever it stands.
        let code = self.whole.find([';', '#']).map_or(self.whole, |end| &self.whole[..end]).trim();
        if code.is_empty() {
            return Ok(None);
        }
        if let Some(header) = code.strip_prefix('[') {
            let Some((name, _)) = header.split_once(']') else {
                return Err((self.span(code), ParseErrorKind::UnclosedSection));
            };
            if name.is_empty() {
                return Err((self.span(code), ParseErrorKind::UnnamedSection));
            }
            return Ok(Some(Line::Section { name: name.to_owned(), line: self.number }));
        }
        if code == "include" || code.starts_with("include ") || code.starts_with("include\t") {
            return Err((self.span(code), ParseErrorKind::Include));
        }
        self.setting(code, variables).map(|setting| Some(Line::Setting(setting)))
    }

    fn setting(&self, code: &'a str, variables: &BTreeMap<String, String>) -> Result<Setting, Fault> {
        let (key, value) = match code.split_once('=') {
            Some((key, value)) => (key.trim_end(), Some(value.trim())),
            None => (code, None),
        };
        let key_span = self.span(key);
        let value_span = value.map_or(key_span, |value| self.span(value));
        let value = match value {
            Some(value) => Some(self.expand(value, variables)?),
            None => None,
        };
        Ok(Setting { key: key.to_owned(), key_span, value, value_span })
    }

    /// Puts `${NAME}` in; an unset variable is empty, as in fio.
    fn expand(&self, value: &str, variables: &BTreeMap<String, String>) -> Result<String, Fault> {
        let mut result = String::new();
        let mut rest = value;
        while let Some(start) = rest.find("${") {
            result.push_str(&rest[..start]);
            let Some((name, after)) = rest[start + 2..].split_once('}') else {
                return Err((self.span(&rest[start..]), ParseErrorKind::UnclosedVariable));
            };
            result.push_str(variables.get(name).map_or("", String::as_str));
            rest = after;
        }
        result.push_str(rest);
        Ok(result)
    }
}
