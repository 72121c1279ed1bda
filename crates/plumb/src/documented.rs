//! The command lines that the documentation shows are ones that the program takes, and the devices in them can be built.

use std::path::{Path, PathBuf};

use clap::Parser;

use crate::deferred::Deferred;
use crate::{Arguments, Command};

/// What stands in the pages for a secret.
const SECRET: &str = "DHHC-1:00:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh+KfiaR:";

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = docs.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    pages.push(root.join("README.md"));
    pages.sort();
    pages
}

/// The commands of a page: lines of code that begin with `plumb`, and code within text that says all of one.
fn commands(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let joined = text.replace("\\\n", " ");
    let mut fenced = false;
    for line in joined.lines() {
        fenced ^= line.starts_with("```");
        let code = line.trim().trim_start_matches("$ ");
        if (fenced || line.starts_with("    ")) && code.starts_with("plumb ") {
            found.push(code.to_owned());
        } else if !fenced && !line.starts_with("    ") {
            // Every second part stands between backquotes.
            for code in line.split('`').skip(1).step_by(2) {
                let whole = code.starts_with("plumb ") && code.contains("--device ");
                if whole || code.starts_with("plumb control unix:") {
                    found.push(code.to_owned());
                } else if let Some(change) = code
                    .strip_prefix("--set ")
                    .filter(|change| text.starts_with("# Serving") && !change.starts_with("KEY"))
                {
                    // Of a device that another line names: most do.
                    found.push(format!("plumb serve --device samsung-980pro-1tb --loop --set {change}"));
                }
            }
        }
    }
    found
}

/// The words of a command line as a shell makes them, up to what the shell itself takes.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote) = (None::<String>, None);
    for character in line.chars() {
        match (character, quote) {
            (_, Some(open)) if character == open => quote = None,
            (_, Some(_)) => word.get_or_insert_default().push(character),
            ('\'' | '"', None) => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            ('#' | '&' | '|' | '>' | '<' | ';', None) if word.is_none() => break,
            (' ', None) => words.extend(word.take()),
            (character, None) => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

#[test]
fn every_command_of_the_pages_is_one() {
    let mut seen = 0;
    let mut wrong = Vec::new();
    for page in pages() {
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        for line in commands(&std::fs::read_to_string(&page).unwrap()) {
            let line = line.replace("DHHC-1:01:…:", SECRET).replace("--device P", "--device samsung-980pro-1tb");
            // A part is left out, which the reader knows: `plumb control … watch`.
            if line.contains('…') || line.contains("...") {
                continue;
            }
            seen += 1;
            match Arguments::try_parse_from(words(&line)) {
                Err(error) => wrong.push(format!("{name}: {line}\n{error}")),
                Ok(Arguments { command: Command::Serve(Deferred(arguments)) }) => {
                    if let Err(error) = arguments.device_without_contents() {
                        wrong.push(format!("{name}: {line}\n{error:?}"));
                    }
                }
                Ok(_) => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(seen > 60, "only {seen} commands were found");
}

#[test]
fn words_are_those_of_a_shell() {
    assert_eq!(words(r#"plumb a  'b "c' "d 'e" f=g"h i" '' # j"#), ["plumb", "a", "b \"c", "d 'e", "f=gh i", ""]);
    assert_eq!(words("plumb run x#y > z"), ["plumb", "run", "x#y"]);
}
