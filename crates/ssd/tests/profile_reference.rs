//! docs/device-profile.md is made from the types that profiles are read into, and
//! from the answers of their checks.

use std::collections::BTreeMap;
use std::fmt::Write;

use ssd::profile::{Profile, builtin_names};
use toml::{Table, Value};

const SOURCES: [&str; 7] = [
    include_str!("../src/config/mod.rs"),
    include_str!("../src/disk/config.rs"),
    include_str!("../src/card/config.rs"),
    include_str!("../src/zoned/config/mod.rs"),
    include_str!("../src/zoned/config/management.rs"),
    include_str!("../src/profile/expectation.rs"),
    include_str!("../src/profile/measure.rs"),
];

struct Field {
    name: String,
    kind: String,
    meaning: String,
    optional: bool,
}

#[derive(Default)]
struct Type {
    meaning: String,
    /// Of a struct; of an enum its values.
    fields: Vec<Field>,
    is_enum: bool,
    /// Every key may be left out.
    optional: bool,
}

/// The structs and enums of the sources that serde reads, by name.
fn types() -> BTreeMap<String, Type> {
    let mut types = BTreeMap::new();
    for source in SOURCES {
        let (mut meaning, mut attributes) = (String::new(), String::new());
        let mut open: Option<(String, Type)> = None;
        for line in source.lines() {
            let line = line.trim();
            if let Some(text) = line.strip_prefix("///") {
                let text = text.trim();
                let separator = if meaning.is_empty() { "" } else { " " };
                if !text.is_empty() {
                    meaning += &format!("{separator}{text}");
                }
                continue;
            }
            if line.starts_with("#[") {
                attributes += line;
                continue;
            }
            let declared = ["pub struct ", "pub enum "].iter().find_map(|start| line.strip_prefix(start));
            if let (Some(name), true) =
                (declared.and_then(|rest| rest.strip_suffix(" {")), attributes.contains("Deserialize"))
            {
                let optional = attributes.split("#[serde(").nth(1).is_some_and(|serde| serde.contains("default"));
                let kind = Type {
                    meaning: std::mem::take(&mut meaning),
                    is_enum: line.contains("enum"),
                    optional,
                    ..Type::default()
                };
                open = Some((name.to_owned(), kind));
            } else if line == "}" {
                if let Some((name, kind)) = open.take() {
                    types.insert(name, kind);
                }
            } else if let Some((_, kind)) = &mut open {
                let optional = attributes.contains("serde(default");
                if kind.is_enum {
                    if let Some(name) = line.strip_suffix(',') {
                        let renamed = attributes.split("rename = \"").nth(1).and_then(|rest| rest.split('"').next());
                        let name = renamed.map_or_else(|| kebab(name), str::to_owned);
                        kind.fields.push(Field {
                            name,
                            kind: String::new(),
                            meaning: std::mem::take(&mut meaning),
                            optional,
                        });
                    }
                } else if let Some((name, rest)) = line.strip_prefix("pub ").and_then(|rest| rest.split_once(": ")) {
                    let meaning = std::mem::take(&mut meaning);
                    let of = rest.trim_end_matches(',').to_owned();
                    kind.fields.push(Field { name: name.to_owned(), kind: of, meaning, optional });
                }
            }
            meaning.clear();
            attributes.clear();
        }
    }
    types
}

fn kebab(name: &str) -> String {
    let mut text = String::new();
    for (index, c) in name.chars().enumerate() {
        if c.is_ascii_uppercase() && index > 0 {
            text.push('-');
        }
        text.push(c.to_ascii_lowercase());
    }
    text
}

/// What `Option` and `Vec` hold.
fn inner(kind: &str) -> &str {
    let inside = |start: &str| kind.strip_prefix(start).and_then(|rest| rest.strip_suffix('>'));
    inside("Option<").or_else(|| inside("Vec<")).map_or(kind, inner)
}

/// What is written: `time`, `size a second`.
fn unit(field: &Field, types: &BTreeMap<String, Type>) -> String {
    let rate = ["bandwidth", "_rate"].iter().any(|part| field.name.ends_with(part));
    let one = match inner(&field.kind) {
        "ByteSize" if rate => "size a second",
        "ByteSize" => "size",
        "Nanos" => "time",
        "u16" | "u32" | "u64" => "whole number",
        "f64" => "number",
        "bool" => "true or false",
        "String" => "text",
        other => match types.get(other) {
            Some(Type { is_enum: true, .. }) => return format!("one of {}", names(&types[other])),
            _ => "table",
        },
    };
    if field.kind.contains("Vec<") { format!("list of {one}s") } else { one.to_owned() }
}

fn names(kind: &Type) -> String {
    kind.fields.iter().map(|field| format!("`\"{}\"`", field.name)).collect::<Vec<_>>().join(", ")
}

/// Tables that no built-in profile of a kind has, so that their keys have defaults to show.
const ABSENT: [(&str, &str); 8] = [
    ("ssd", "suspend = { suspend = '10us', resume = '10us' }"),
    ("ssd", "initial = { overwritten = 'hot-cold', hot = { writes = 0.8, space = 0.2 } }"),
    ("zoned", "zone.zrwa = { size = '64KiB', granularity = '16KiB', zones = 4 }"),
    ("zoned", "management.finish_law = { base = '0ns', journal = { share = 0.1, time = '1ms' } }"),
    ("zoned", "controller.write.partial = { unit = '8KiB' }"),
    ("zoned", "suspend = { suspend = '10us', resume = '0us' }"),
    ("zoned", "buffer = { size = '4896KiB' }"),
    ("zoned", "cell.program_unit = '96KiB'"),
];

/// Profiles of a kind to learn from: the built-in ones, and such with the tables that those do not have.
fn samples(kind: &str) -> Vec<Table> {
    let builtin: Vec<Table> = builtin_names()
        .map(|name| Profile::builtin(name).unwrap())
        .filter(|profile| profile.config.kind() == kind)
        .map(|profile| {
            let mut document = profile.document().unwrap();
            document.remove("sources");
            document.remove("expect");
            document
        })
        .collect();
    let mut all = builtin.clone();
    for document in &builtin {
        for (_, text) in ABSENT.iter().filter(|(of, _)| *of == kind) {
            let mut document = document.clone();
            merge(&mut document, text.parse().unwrap());
            if Profile::from_table("sample", &document).is_ok() {
                all.push(Profile::from_table("sample", &document).unwrap().document().unwrap());
            }
        }
    }
    all
}

fn merge(into: &mut Table, from: Table) {
    for (key, value) in from {
        match (into.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(value)) => merge(inner, value),
            (_, value) => drop(into.insert(key, value)),
        }
    }
}

fn at<'t>(table: &'t Table, path: &[&str]) -> Option<&'t Value> {
    let (first, rest) = path.split_first()?;
    let value = table.get(*first)?;
    if rest.is_empty() { Some(value) } else { at(value.as_table()?, rest) }
}

fn put(table: &mut Table, path: &[&str], value: Option<Value>) {
    match (path, value) {
        ([last], Some(value)) => drop(table.insert((*last).to_owned(), value)),
        ([last], None) => drop(table.remove(*last)),
        ([first, rest @ ..], value) => put(table[*first].as_table_mut().unwrap(), rest, value),
        ([], _) => {}
    }
}

/// What holds when the key is left out.
fn default(path: &[&str], samples: &[Table]) -> String {
    let mut found = None;
    for sample in samples.iter().filter(|sample| at(sample, path).is_some()) {
        let mut without = sample.clone();
        put(&mut without, path, None);
        if let Ok(profile) = Profile::from_table("sample", &without) {
            found = Some(at(&profile.document().unwrap(), path).cloned());
            break;
        }
    }
    match found {
        Some(Some(Value::Table(_))) => "its keys' defaults".to_owned(),
        Some(Some(Value::Array(items))) if items.is_empty() => "none".to_owned(),
        Some(Some(value)) => format!("`{value}`"),
        // Left out it stays away, or nothing may be left out without another change.
        Some(None) | None => "absent".to_owned(),
    }
}

/// What the checks answer to values out of range.
fn constraints(path: &[&str], unit: &str, samples: &[Table]) -> String {
    let probes: Vec<Value> = match unit {
        "size" | "size a second" => ["0", "1", "513", "3KiB", "4097KiB", "8000000TB"].map(Value::from).into(),
        "time" => ["0ns", "9000000s"].map(Value::from).into(),
        "whole number" => [0, 1, 2, 7, 65535, i64::from(u32::MAX)].map(Value::from).into(),
        "number" => [-1.0, 0.0, 2.0, 1e9, f64::NAN].map(Value::from).into(),
        "list of times" => vec![Value::from(Vec::<Value>::new()), Value::from(vec!["1us"; 7])],
        "list of sizes" => vec![Value::from(vec!["0"]), Value::from(vec!["1"])],
        "list of whole numbers" => vec![Value::from(vec![0]), Value::from(Vec::<Value>::new())],
        _ => return String::new(),
    };
    let key = format!("`{}`", path.join("."));
    let mut found: Vec<String> = Vec::new();
    for sample in samples.iter().filter(|sample| at(sample, path).is_some()).take(1) {
        for probe in &probes {
            let mut changed = sample.clone();
            put(&mut changed, path, Some(probe.clone()));
            let Err(error) = Profile::from_table("sample", &changed) else { continue };
            let text = error.to_string();
            let Some(text) = text.strip_prefix("sample: ").and_then(|text| text.strip_prefix(&key)) else { continue };
            let rule = if text.contains("is zero; give") {
                "at least 1".to_owned()
            } else if let Some((_, rule)) = text.split_once("it must be ") {
                rule.to_owned()
            } else if let Some((_, of)) = text.split_once("is not a multiple of ") {
                let of = of.split([';', '(']).next().unwrap_or_default().trim();
                format!("a multiple of {of}")
            } else if let Some((_, rule)) = text.split_once("times; ") {
                rule.to_owned()
            } else if let Some((_, rule)) = text.split_once(", but ") {
                format!("not where {rule}")
            } else {
                continue;
            };
            if !found.contains(&rule) {
                found.push(rule);
            }
        }
    }
    found.join("; ")
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// The tables of a type and of those in it, each at its dotted path.
fn write_type(
    page: &mut String,
    name: &str,
    path: &[&str],
    samples: &[Table],
    types: &BTreeMap<String, Type>,
    optional: bool,
) {
    let kind = &types[name];
    let heading = if path.is_empty() { "At the top level".to_owned() } else { format!("`[{}]`", path.join(".")) };
    writeln!(page, "### {heading}\n\n{}{}\n", kind.meaning, if optional { " May be left out." } else { "" }).unwrap();
    writeln!(page, "| key | is | default | meaning | must be |\n|---|---|---|---|---|").unwrap();
    let mut inside: Vec<(&Field, Vec<&str>)> = Vec::new();
    for field in &kind.fields {
        let mut path = path.to_vec();
        path.push(&field.name);
        let unit = unit(field, types);
        let is_optional = field.optional || kind.optional;
        let default = if is_optional { default(&path, samples) } else { "needed".to_owned() };
        let rules = constraints(&path, &unit, samples);
        let mut meaning = field.meaning.clone();
        if unit.starts_with("one of") {
            for value in &types[inner(&field.kind)].fields {
                write!(meaning, " `\"{}\"`: {}", value.name, value.meaning).unwrap();
            }
        }
        writeln!(page, "| `{}` | {unit} | {default} | {} | {} |", field.name, cell(&meaning), cell(&rules)).unwrap();
        if unit == "table" {
            inside.push((field, path));
        }
    }
    page.push('\n');
    for (field, path) in inside {
        write_type(page, inner(&field.kind), &path, samples, types, field.optional || kind.optional);
    }
}

fn page() -> String {
    let types = types();
    let mut page = String::from(
        "# What a device profile holds

Made from the code by `PLUMB_UPDATE_DOCS=1 cargo test -p plumb-ssd --test ssd_tests profile_reference`; a test compares. What the
parts of a profile are for is in [devices/README.md](../devices/README.md). `plumb show DEVICE` prints a profile with every
key in it; a file with faults gets all of them named at once, each with its line.

Times are texts with a unit (`\"45us\"`; ns, us, ms, s), sizes too (`\"16KiB\"`; k, KiB, MiB, GiB, TiB are powers of two,
kB, MB, GB, TB powers of ten), or plain numbers of bytes. *Must be* is what the checks answer to a value that cannot be,
on the first built-in profile that has the key.

## Every kind

| key | is | default | meaning |
|---|---|---|---|
| `name` | text | needed | What runs and reports call the device. |
| `kind` | one of `\"ssd\"`, `\"zoned\"`, `\"disk\"`, `\"card\"` | needed | Which of the tables below hold. |
| `description` | text | empty | What a reader should know of it. |
| `[sources]` | table | none | The source of each parameter, under the same dotted key; a table's key covers all in it. |
| `[[expect]]` | list of tables | none | Published figures that must come out: below. |

",
    );
    for (kind, of, heading) in [
        ("ssd", "SsdConfig", "kind = \"ssd\""),
        ("disk", "DiskConfig", "kind = \"disk\""),
        ("card", "CardConfig", "kind = \"card\""),
        ("zoned", "ZonedConfig", "kind = \"zoned\""),
    ] {
        writeln!(page, "## {heading}\n").unwrap();
        write_type(&mut page, of, &[], &samples(kind), &types, false);
    }
    writeln!(page, "## Figures to come out\n").unwrap();
    let mut rows = String::new();
    write_type(&mut rows, "Expectation", &["expect"], &[], &types, true);
    page += &rows.replace("[expect]", "[[expect]]");
    format!("{}\n", page.trim_end())
}

#[test]
fn the_reference_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/device-profile.md");
    let page = page();
    if std::env::var_os("PLUMB_UPDATE_DOCS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(path).unwrap_or_default();
    assert!(kept == page, "docs/device-profile.md is out of date; run this test with PLUMB_UPDATE_DOCS=1");
}

#[test]
fn every_key_of_every_profile_is_in_the_reference() {
    let page = page();
    for name in builtin_names() {
        let mut document = Profile::builtin(name).unwrap().document().unwrap();
        let kind = document["kind"].as_str().unwrap().to_owned();
        document.retain(|key, _| !["name", "kind", "description", "sources", "expect"].contains(&key));
        let section = page.split(&format!("## kind = \"{kind}\"")).nth(1).unwrap().split("\n## ").next().unwrap();
        let mut open = vec![(String::new(), document)];
        while let Some((path, table)) = open.pop() {
            let heading = if path.is_empty() { "### At the top level".to_owned() } else { format!("### `[{path}]`") };
            let part = section.split(&heading).nth(1).unwrap_or_else(|| panic!("{kind}: no {heading}"));
            let part = part.split("\n### ").next().unwrap();
            for (key, value) in table {
                let row = part.lines().find(|line| line.starts_with(&format!("| `{key}` |")));
                let row = row.unwrap_or_else(|| panic!("{kind}: no {key} under {heading}"));
                assert!(row.split('|').nth(4).is_some_and(|meaning| meaning.trim().len() > 3), "{row}");
                if let Value::Table(inner) = value {
                    open.push((if path.is_empty() { key } else { format!("{path}.{key}") }, inner));
                }
            }
        }
    }
}
