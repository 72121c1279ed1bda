//! The text that an experiment was read from: what an error points at.

use std::ops::Range;
use std::sync::Arc;

use ssd::profile::Keys;
use toml::de::{DeTable, DeValue};
use workload::fio::{JobFile, ParseError, parse::Span};

use super::SpecError;

/// The user's file behind an experiment: a spec, or a job file given as it is.
#[derive(Clone, Debug, Default)]
pub struct SpecSource(Option<Arc<File>>);

#[derive(Debug)]
struct File {
    name: String,
    text: String,
    /// Whether the text is a spec; else it is the job file itself.
    spec: bool,
}

/// A job file inside another file, with the place of each of its bytes there.
#[derive(Clone, Debug)]
pub struct Inline {
    file: Arc<File>,
    /// For each byte of the job file, and its end, the byte of the file.
    offsets: Vec<usize>,
}

impl SpecSource {
    /// The spec `text`, which errors call `name`.
    pub fn spec(name: &str, text: &str) -> Self {
        Self(Some(Arc::new(File { name: name.to_owned(), text: text.to_owned(), spec: true })))
    }

    /// The job file `text`, which errors call `name`.
    pub fn job_file(name: &str, text: &str) -> Self {
        Self(Some(Arc::new(File { name: name.to_owned(), text: text.to_owned(), spec: false })))
    }

    fn as_spec(&self) -> Option<&File> {
        self.0.as_deref().filter(|file| file.spec)
    }

    /// `error` at the key with this dotted name or, where there is none, at the
    /// first key that ends in it; as it was where the file has neither (a `--set`).
    pub fn at_key(&self, dotted: &str, error: SpecError) -> SpecError {
        let found = self.as_spec().and_then(|file| Some((file, key(&file.text, dotted)?)));
        match found {
            Some((file, span)) => file.fault(span, &error),
            None => error,
        }
    }

    /// What [`SpecSource::at_key`] makes of `error`, with the place of a text value.
    pub fn at_text(&self, value: &str, error: SpecError) -> SpecError {
        let found = self.as_spec().and_then(|file| Some((file, text_value(&file.text, value)?)));
        match found {
            Some((file, span)) => file.fault(span, &error),
            None => error,
        }
    }

    /// Where the job file `inline` stands; `None` where the file does not hold it.
    pub fn inline(&self, inline: &str) -> Option<Inline> {
        let file = self.0.clone()?;
        if !file.spec {
            return (file.text == inline).then(|| Inline { offsets: (0..=inline.len()).collect(), file });
        }
        let span = text_value(&file.text, inline)?;
        let offsets = decoded_offsets(&file.text, span, inline)?;
        Some(Inline { file, offsets })
    }
}

impl Inline {
    /// The file's name.
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// A fault in the job file as one in the file that it stands in, whose text follows.
    pub fn fault(&self, error: ParseError) -> (ParseError, String) {
        let at = |offset: usize| self.offsets[offset.min(self.offsets.len() - 1)];
        let (start, end) = (at(error.span.offset), at(error.span.offset + error.span.length));
        let (line, column) = line_and_column(&self.file.text, start);
        let span = Span { line, column, offset: start, length: end - start };
        (ParseError { file: self.file.name.clone(), span, kind: error.kind }, self.file.text.clone())
    }

    /// Gives every job its place in the file.
    pub fn place(&self, text: &str, jobs: &mut JobFile) {
        let starts: Vec<usize> =
            std::iter::once(0).chain(text.match_indices('\n').map(|(offset, _)| offset + 1)).collect();
        for job in &mut jobs.jobs {
            job.file.clone_from(&self.file.name);
            let offset = starts.get(job.line.saturating_sub(1)).copied().unwrap_or(0);
            job.line = line_and_column(&self.file.text, self.offsets[offset.min(self.offsets.len() - 1)]).0;
        }
    }
}

impl File {
    fn fault(&self, span: Range<usize>, error: &SpecError) -> SpecError {
        let (line, column) = line_and_column(&self.text, span.start);
        SpecError::Syntax {
            origin: self.name.clone(),
            line,
            column,
            span,
            text: self.text.clone(),
            message: error.to_string(),
        }
    }
}

/// Line and column of a byte, from 1, the column in characters.
pub(super) fn line_and_column(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}

/// Where the key of this dotted name stands.
fn key(text: &str, dotted: &str) -> Option<Range<usize>> {
    let root = DeTable::parse(text).ok()?;
    let keys = Keys::of(root.get_ref());
    keys.own(dotted).or_else(|| keys.own_ending(dotted))
}

/// Where the first text of this value stands, quotes included.
fn text_value(text: &str, wanted: &str) -> Option<Range<usize>> {
    fn look(value: &toml::Spanned<DeValue<'_>>, wanted: &str) -> Option<Range<usize>> {
        match value.get_ref() {
            DeValue::String(text) => (text.as_ref() == wanted).then(|| value.span()),
            DeValue::Array(items) => items.iter().find_map(|item| look(item, wanted)),
            DeValue::Table(table) => table.iter().find_map(|(_, value)| look(value, wanted)),
            _ => None,
        }
    }
    let root = DeTable::parse(text).ok()?;
    root.get_ref().iter().find_map(|(_, value)| look(value, wanted))
}

/// For each byte of a TOML string's value, and its end, where it stands in
/// `text`, of which `span` is the string with its quotes.
fn decoded_offsets(text: &str, span: Range<usize>, value: &str) -> Option<Vec<usize>> {
    let raw = text.get(span.clone())?;
    let quotes = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quotes| raw.starts_with(quotes))?;
    let mut at = quotes.len();
    if quotes.len() == 3 {
        // A line end right after the quotes is no part of the value.
        at += if raw[at..].starts_with("\r\n") { 2 } else { usize::from(raw[at..].starts_with('\n')) };
    }
    let basic = quotes.starts_with('"');
    let mut offsets = Vec::with_capacity(value.len() + 1);
    for wanted in value.chars() {
        loop {
            let rest = raw.get(at..)?;
            let continued = basic
                .then(|| rest.strip_prefix('\\'))
                .flatten()
                .filter(|after| after.trim_start_matches([' ', '\t']).starts_with(['\n', '\r']));
            match continued {
                // A line that goes on: its end and all white space after it are no part of the value.
                Some(after) => at += rest.len() - after.trim_start().len(),
                // A line end may be read as its plain form.
                None if wanted == '\n' && rest.starts_with("\r\n") => at += 1,
                None => break,
            }
        }
        let rest = &raw[at..];
        offsets.extend(std::iter::repeat_n(span.start + at, wanted.len_utf8()));
        at += match (basic, rest.as_bytes().first()?) {
            (true, b'\\') => match rest.as_bytes().get(1)? {
                b'x' => 4,
                b'u' => 6,
                b'U' => 10,
                _ => 2,
            },
            _ => rest.chars().next()?.len_utf8(),
        };
    }
    offsets.push(span.start + at);
    Some(offsets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_text_keeps_its_places() {
        for text in [
            "a = 1\nfio = '''\n[j]\nbs=4k\nrw=read\n'''\n",
            "a = 1\nfio = \"\"\"[j]\nbs=4k\nrw=read\n\"\"\"\n",
            "a = 1\r\nfio = \"\"\"\r\n[j]\r\nbs=4k\r\nrw=read\r\n\"\"\"\r\n",
            "fio = \"[j]\\nbs=4k\\n\\u0072w=read\\n\"\n",
            "fio = \"\"\"\\\n   [j]\n\\\n  bs=4k\nrw=read\n\"\"\"\n",
            "[[sweep.x]]\nfio = ['no', '''\n[j]\nbs=4k\nrw=read\n''']\n",
        ] {
            let root = DeTable::parse(text).unwrap();
            fn first(value: &DeValue<'_>) -> Option<String> {
                match value {
                    DeValue::String(text) => text.contains("rw=").then(|| text.to_string()),
                    DeValue::Array(items) => items.iter().find_map(|item| first(item.get_ref())),
                    DeValue::Table(table) => table.iter().find_map(|(_, value)| first(value.get_ref())),
                    _ => None,
                }
            }
            let value = root.get_ref().iter().find_map(|(_, value)| first(value.get_ref())).unwrap();
            let inline = SpecSource::spec("s.toml", text).inline(&value).unwrap();
            for part in ["[j]", "bs=4k", "=read"] {
                let offset = inline.offsets[value.find(part).unwrap()];
                assert!(text[offset..].starts_with(part), "{part} of {text:?} at {offset}");
            }
            assert_eq!(inline.offsets.len(), value.len() + 1);
        }
    }
}
