//! Statuses as people write them: `write-fault`, or type and code as in `2/80h`.

use nvme::Status;
use serde::{Deserialize, Deserializer, Serializer};

/// Why a text is not a status.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a status; write the specification's name (such as write-fault or unrecovered-read-error) \
     or type and code in hexadecimal (such as 2/81h)"
)]
pub struct ParseStatusError {
    text: String,
}

/// A status by the specification's name in lower case with hyphens, or by its
/// Status Code Type and Status Code in hexadecimal (Base figures 93 to 98).
///
/// # Errors
///
/// When the text is neither, or says success, which is no failure.
pub fn parse_status(text: &str) -> Result<Status, ParseStatusError> {
    let fail = || ParseStatusError { text: text.to_owned() };
    let named = Status::NAMED.iter().find(|(_, name)| hyphened(name) == text).map(|(status, _)| *status);
    let status = match (named, text.split_once('/')) {
        (Some(status), _) => status,
        (None, Some((code_type, code))) => {
            let number = |text: &str| u8::from_str_radix(text.trim_end_matches('h'), 16).map_err(|_| fail());
            let (code_type, code) = (number(code_type)?, number(code)?);
            // SCT has three bits.
            if code_type > 7 {
                return Err(fail());
            }
            Status { code_type, code }
        }
        (None, None) => return Err(fail()),
    };
    if status.is_success() { Err(fail()) } else { Ok(status) }
}

/// The text that [`parse_status`] reads as this status.
pub fn status_text(status: Status) -> String {
    match status.name() {
        Some(name) => hyphened(name),
        None => format!("{:x}/{:02x}h", status.code_type, status.code),
    }
}

fn hyphened(name: &str) -> String {
    name.split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>()
        .join("-")
        .to_lowercase()
}

pub(super) fn serialize<S: Serializer>(status: &Status, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&status_text(*status))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Status, D::Error> {
    parse_status(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_a_text_of_its_own() {
        for code_type in 0..8 {
            for code in 0..=u8::MAX {
                let status = Status { code_type, code };
                let read = parse_status(&status_text(status));
                assert_eq!(read.ok(), (!status.is_success()).then_some(status), "{}", status_text(status));
            }
        }
    }

    #[test]
    fn names_and_codes() {
        assert_eq!(parse_status("unrecovered-read-error"), Ok(Status::UNRECOVERED_READ));
        assert_eq!(parse_status("2/81h"), Ok(Status::UNRECOVERED_READ));
        for bad in ["", "/", "8/00h", "2/", "2/100", "success", "successful-completion", "0/0", "Write Fault"] {
            assert!(parse_status(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
