//! Differences that are known, each with its cause.

use serde::{Deserialize, Serialize};

use super::{Case, Difference, DifferenceKind};

/// The list.
const KNOWN: &str = include_str!("known.toml");

/// A difference that is written down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownDifference {
    /// Names of cases; one that ends in `*` stands for all that begin so.
    pub cases: Vec<String>,
    /// In what way they differ.
    pub kind: DifferenceKind,
    /// Why, with the place in the kernel.
    pub cause: String,
}

impl KnownDifference {
    /// Whether it explains `difference` in `case`.
    pub fn explains(&self, case: &Case, difference: &Difference) -> bool {
        let named = |pattern: &String| match pattern.strip_suffix('*') {
            Some(start) => case.name.starts_with(start),
            None => case.name == *pattern,
        };
        self.kind == difference.kind && self.cases.iter().any(named)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    #[serde(default)]
    known: Vec<KnownDifference>,
}

/// Every known difference.
///
/// # Errors
/// Where the data is at fault; a test reads it.
pub fn known_differences() -> Result<Vec<KnownDifference>, toml::de::Error> {
    toml::from_str::<List>(KNOWN).map(|list| list.known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::truth::cases;

    #[test]
    fn every_known_difference_is_of_a_case_and_has_a_cause() {
        let cases = cases().unwrap();
        for known in known_differences().unwrap() {
            assert!(known.cause.len() > 20, "{known:?}");
            let difference = Difference { kind: known.kind, first: String::new(), count: 1 };
            for pattern in &known.cases {
                let one = KnownDifference { cases: vec![pattern.clone()], ..known.clone() };
                assert!(cases.iter().any(|case| one.explains(case, &difference)), "{pattern} names no case");
            }
        }
    }
}
