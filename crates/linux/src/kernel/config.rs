//! Fragments of a kernel's configuration.

use std::collections::BTreeMap;

/// The values of a fragment that a person wrote, one a line; says which line is none.
pub(super) fn parse(text: &str) -> Result<String, String> {
    let mut values = String::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        match value(line) {
            Some((name, value)) => values.push_str(&format!("{name}={value}\n")),
            None if line.is_empty() || line.starts_with('#') => {}
            None => return Err(format!("line {}: {line:?} is not CONFIG_NAME=VALUE", number + 1)),
        }
    }
    Ok(values)
}

/// Name and value of a line, `n` for "is not set".
fn value(line: &str) -> Option<(&str, &str)> {
    let unset = || Some((line.strip_prefix("# ")?.strip_suffix(" is not set")?, "n"));
    let (name, value) = line.split_once('=').filter(|_| !line.starts_with('#')).or_else(unset)?;
    let known = name.strip_prefix("CONFIG_")?;
    let named = !known.is_empty() && known.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (named && !value.is_empty()).then_some((name, value))
}

/// Settings of `fragment` that the finished configuration `made` has not, by name. Of two for one option the later
/// counts.
pub(super) fn dropped(fragment: &str, made: &str) -> Vec<String> {
    let values = |text: &'_ str| -> BTreeMap<String, String> {
        text.lines().filter_map(value).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    let made = values(made);
    let has = |name: &String| made.get(name).map_or("n", String::as_str);
    let asked = values(fragment).into_iter();
    asked.filter(|(name, value)| has(name) != value).map(|(name, value)| format!("{name}={value}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_settings_are_named() {
        let made = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=y\nCONFIG_D_E=y\nCONFIG_F=\"x y\"\n";
        assert_eq!(dropped("# x\nCONFIG_A=y\nCONFIG_B=n\nCONFIG_D=n\nCONFIG_F=\"x y\"\n", made), Vec::<String>::new());
        assert_eq!(dropped("CONFIG_B=y\nCONFIG_C=n\n", made), ["CONFIG_B=y", "CONFIG_C=n"]);
        assert_eq!(dropped("CONFIG_B=y\nCONFIG_B=n\n", made), Vec::<String>::new());
        assert_eq!(dropped("CONFIG_A=n\n# CONFIG_A is not set\n", made), ["CONFIG_A=n"]);
    }

    #[test]
    fn a_fragment_is_values_and_comments() {
        let text = "# of mine\n\n CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=\"a b\"";
        assert_eq!(parse(text).unwrap(), "CONFIG_A=y\nCONFIG_B=n\nCONFIG_C=\"a b\"\n");
        for (wrong, line) in [("CONFIG_A", 1), ("\nA=y", 2), ("CONFIG_A=", 1), ("CONFIG_=y", 1), ("CONFIG_A B=y", 1)] {
            let fault = parse(wrong).unwrap_err();
            assert!(fault.starts_with(&format!("line {line}:")), "{wrong}: {fault}");
        }
    }
}
