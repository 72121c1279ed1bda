//! Numbers out of what a program printed.

use regex::Regex;
use serde_json::Value;

use crate::error::ProgramError;
use crate::spec::Extract;

/// How a number is found.
#[derive(Clone, Debug)]
pub(super) enum Extractor {
    Regex(Regex),
    Json(String),
}

impl Extractor {
    pub(super) fn new(name: &str, extract: &Extract) -> Result<Self, ProgramError> {
        let unfit = |message: String| ProgramError::Unfit(format!("metrics.{name}: {message}"));
        match extract {
            Extract::Regex(text) => {
                let regex = Regex::new(text).map_err(|error| unfit(error.to_string()))?;
                if regex.captures_len() != 2 {
                    return Err(unfit(format!("`{text}` needs one group, for the number: `([0-9.]+)`")));
                }
                Ok(Self::Regex(regex))
            }
            Extract::Json(pointer) if pointer.is_empty() || pointer.starts_with('/') => Ok(Self::Json(pointer.clone())),
            Extract::Json(pointer) => {
                Err(unfit(format!("`{pointer}` is not a JSON pointer, such as `/jobs/0/read/iops`")))
            }
        }
    }

    /// The number, where the text has it.
    pub(super) fn value(&self, text: &str) -> Option<f64> {
        match self {
            Self::Regex(regex) => {
                let found = regex.captures_iter(text).last()?.get(1)?;
                found.as_str().trim().parse().ok()
            }
            Self::Json(pointer) => {
                let document = last_document(text)?;
                let value = document.pointer(pointer)?;
                value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())
            }
        }
    }
}

/// The last JSON object or array that begins a line, and is whole.
fn last_document(text: &str) -> Option<Value> {
    let mut at = 0;
    let mut last = None;
    while let Some(rest) = text.get(at..) {
        if rest.starts_with(['{', '[']) {
            let mut documents = serde_json::Deserializer::from_str(rest).into_iter::<Value>();
            if let Some(Ok(document)) = documents.next() {
                last = Some(document);
                at += documents.byte_offset();
            }
        }
        match text.get(at..).and_then(|rest| rest.find('\n')) {
            Some(end) => at += end + 1,
            None => break,
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extractor(extract: Extract) -> Extractor {
        Extractor::new("x", &extract).unwrap()
    }

    #[test]
    fn the_last_number_counts() {
        let regex = extractor(Extract::Regex("took ([0-9.]+) ms".to_owned()));
        assert_eq!(regex.value("took 1 ms\ntook 2.5 ms\n"), Some(2.5));
        assert_eq!(regex.value("took . ms"), None);
        let json = extractor(Extract::Json("/a/0".to_owned()));
        assert_eq!(json.value("{\"a\": [1]}\nnoise {\n{\n \"a\": [\"7.5\", 2]\n}\n[torn"), Some(7.5));
        assert_eq!(json.value("{\"b\": 1}"), None);
        assert_eq!(json.value("noise"), None);
    }

    #[test]
    fn what_finds_no_number_is_refused() {
        for extract in [
            Extract::Regex("(".to_owned()),
            Extract::Regex("no group".to_owned()),
            Extract::Regex("(a)(b)".to_owned()),
            Extract::Json("a/b".to_owned()),
        ] {
            let error = Extractor::new("x", &extract).unwrap_err().to_string();
            assert!(error.contains("metrics.x"), "{error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_an_answer(text: String) {
            let _ = extractor(Extract::Json("/a".to_owned())).value(&text);
            let _ = extractor(Extract::Regex("([0-9]+)".to_owned())).value(&text);
        }
    }
}
