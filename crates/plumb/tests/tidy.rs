//! The house rules that a machine can hold the sources to.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A file of code is about one thing; what is longer is about two.
const MAX_LINES: usize = 500;
/// What is read, and not printed by a test, fits the screen.
const MAX_COMMENT_CHARACTERS: usize = 140;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Files with this ending below a folder, in order.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                folders.push(path);
            } else if name.ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn sources() -> Vec<(PathBuf, String)> {
    let root = root();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        (path.strip_prefix(&root).unwrap().to_owned(), text)
    };
    files(&root.join("crates"), ".rs").into_iter().map(read).collect()
}

#[test]
fn files_are_short_and_comments_fit_the_screen() {
    let mut faults = Vec::new();
    for (path, text) in sources() {
        let path = path.display();
        if text.lines().count() > MAX_LINES {
            faults.push(format!("{path}: {} lines, {MAX_LINES} at most", text.lines().count()));
        }
        for (number, line) in (1..).zip(text.lines()) {
            let length = line.chars().count();
            if line.trim_start().starts_with("//") && length > MAX_COMMENT_CHARACTERS {
                faults.push(format!("{path}:{number}: {length} characters, {MAX_COMMENT_CHARACTERS} at most"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The floor of each crate, from the table in ARCHITECTURE.md; what all floors stand on is below the first.
fn floors(text: &str) -> BTreeMap<String, i32> {
    let mut floors = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, floor, name, _, _] = cells[..] else { continue };
        let Some(name) = name.strip_prefix('`').and_then(|name| name.strip_suffix('`')) else { continue };
        let floor = match floor {
            "ground" => -1,
            number => match number.parse() {
                Ok(number) => number,
                Err(_) => continue,
            },
        };
        assert!(floors.insert(name.to_owned(), floor).is_none(), "{name} is on two floors");
    }
    floors
}

#[test]
fn crates_use_only_floors_below_their_own() {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let floors = floors(&text);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = ["metadata", "--format-version", "1", "--no-deps", "--offline"];
    let output = Command::new(cargo).args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let name_of = |value: &Value| {
        let name = value["name"].as_str().unwrap();
        name.strip_prefix("plumb-").unwrap_or(name).to_owned()
    };
    let packages = metadata["packages"].as_array().unwrap();
    let own: Vec<String> = packages.iter().map(name_of).collect();
    let mut faults = Vec::new();
    for package in packages {
        let name = name_of(package);
        let of_this_house = |kind: &dyn Fn(&Value) -> bool| -> Vec<String> {
            let all = package["dependencies"].as_array().unwrap().iter();
            all.filter(|dependency| kind(&dependency["kind"]) && dependency["path"].is_string()).map(name_of).collect()
        };
        let dependencies = of_this_house(&Value::is_null);
        let of_tests = of_this_house(&|kind| kind == "dev");
        let Some(floor) = floors.get(&name) else {
            // Beside the floors: nothing depends on it, or that is a fault there, and it is named all the same.
            if !text.contains(&format!("`{name}`")) {
                faults.push(format!("{name} is on no floor"));
            }
            continue;
        };
        // A crate's tests may ask for features of its own.
        let of_tests = of_tests.into_iter().filter(|below| *below != name);
        for below in dependencies.into_iter().chain(of_tests) {
            if floors.get(&below).is_none_or(|below| below >= floor) {
                faults.push(format!("{name} (floor {floor}) uses {below}"));
            }
        }
    }
    faults.extend(floors.keys().filter(|name| !own.contains(name)).map(|name| format!("there is no crate {name}")));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Modules at the top of a crate, and which of the others each uses outside of its tests. `texts` are its sources by their
/// path below `src`; what its root re-exports is of the module that has it.
fn uses(texts: &[(String, String)]) -> BTreeMap<String, BTreeSet<String>> {
    let module_of = |path: &str| path.split('/').next().unwrap_or_default().trim_end_matches(".rs").to_owned();
    let modules: BTreeSet<String> =
        texts.iter().map(|(path, _)| module_of(path)).filter(|name| name != "lib").collect();
    let mut owners: BTreeMap<String, String> = modules.iter().map(|name| (name.clone(), name.clone())).collect();
    for (_, text) in texts.iter().filter(|(path, _)| path == "lib.rs") {
        for statement in text.split("pub use ").skip(1) {
            let statement = statement.split(';').next().unwrap_or_default();
            let Some((module, names)) = statement.split_once("::") else { continue };
            let names = names.split(|character: char| !character.is_alphanumeric() && character != '_');
            for name in names.filter(|name| !name.is_empty()) {
                // A function may be called as another module is.
                owners.entry(name.to_owned()).or_insert_with(|| module.to_owned());
            }
        }
    }
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in texts.iter().filter(|(path, _)| path != "lib.rs") {
        let module = module_of(path);
        let used = graph.entry(module.clone()).or_default();
        // Modules of tests come last.
        let code = text.split("\n#[cfg(test)]").next().unwrap_or_default();
        let code: String =
            code.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|l| [l, "\n"]).collect();
        for rest in code.split("crate::").skip(1) {
            used.extend(
                firsts(rest).into_iter().filter_map(|name| owners.get(name)).filter(|of| **of != module).cloned(),
            );
        }
    }
    graph
}

/// The first names of what follows `crate::`: one, or those of a list in braces.
fn firsts(rest: &str) -> Vec<&str> {
    let name = |text: &str| {
        text.find(|character: char| !character.is_alphanumeric() && character != '_').unwrap_or(text.len())
    };
    let Some(list) = rest.strip_prefix('{') else { return vec![&rest[..name(rest)]] };
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, character) in list.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                let part = list[start..at].trim();
                found.push(&part[..name(part)]);
                start = at + 1;
                if character == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    found
}

/// Modules that use one another in a circle, the first of them at both ends.
fn circle(graph: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn walk<'g>(
        graph: &'g BTreeMap<String, BTreeSet<String>>,
        module: &'g str,
        way: &mut Vec<&'g str>,
        done: &mut BTreeSet<&'g str>,
    ) -> Option<Vec<String>> {
        if let Some(at) = way.iter().position(|known| *known == module) {
            return Some(way[at..].iter().copied().chain([module]).map(str::to_owned).collect());
        }
        if done.contains(module) {
            return None;
        }
        way.push(module);
        let found = graph.get(module).into_iter().flatten().find_map(|used| walk(graph, used, way, done));
        way.pop();
        done.insert(module);
        found
    }
    let mut done = BTreeSet::new();
    graph.keys().find_map(|module| walk(graph, module, &mut Vec::new(), &mut done))
}

#[test]
fn the_modules_of_a_crate_use_one_another_in_no_circle() {
    for name in ["lab", "betree"] {
        let texts: Vec<(String, String)> = sources()
            .into_iter()
            .filter_map(|(path, text)| Some((path.strip_prefix(format!("crates/{name}/src")).ok()?.to_owned(), text)))
            .map(|(path, text)| (path.display().to_string(), text))
            .collect();
        let graph = uses(&texts);
        assert!(graph.len() > 15 && graph.values().map(BTreeSet::len).sum::<usize>() > 40, "{name}: {graph:?}");
        if let Some(circle) = circle(&graph) {
            panic!("{name}: {}: move what the lower one needs below both", circle.join(" uses "));
        }
    }
}

#[test]
fn a_circle_is_found_in_every_form_of_use() {
    let texts = |b: &str| -> Vec<(String, String)> {
        [
            ("lib.rs", "mod a;\nmod b;\nmod c;\npub use c::{Thing, other};\n"),
            ("a/mod.rs", "use crate::b::X;\n"),
            ("b.rs", b),
            ("c.rs", "fn x() { crate::a::y() }\n"),
        ]
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .into()
    };
    for used in ["use crate::c::Z;", "use crate::{d::{E, a}, c};", "fn f() -> crate::Thing {}", "crate::other();"] {
        assert_eq!(circle(&uses(&texts(used))).unwrap(), ["a", "b", "c", "a"], "{used}");
    }
    for used in ["// crate::c", "#[cfg(test)]\nmod tests { use crate::c; }", "use crate::{d::{c}};", "use other::c;"] {
        assert_eq!(circle(&uses(&texts(&format!("\n{used}\n")))), None, "{used}");
    }
}

/// Clock, threads and unordered maps are kept out of the crates that have to give the same bytes each time.
#[test]
fn the_core_has_no_clock_no_thread_and_no_unordered_map() {
    const CORE: [&str; 10] =
        ["nvme", "ssd", "block", "trace", "stats", "units", "crash", "workload", "betree", "prefetch"];
    const ALLOWED: [(&str, &str); 1] = [("crates/betree/src/cache.rs", "HashMap")]; // asked by key, never walked
    let mut faults = Vec::new();
    for (path, text) in sources() {
        let mut parts = path.components().skip(1).map(|part| part.as_os_str().to_string_lossy().into_owned());
        let (Some(name), Some(folder)) = (parts.next(), parts.next()) else { continue };
        if !CORE.contains(&name.as_str()) || folder != "src" {
            continue;
        }
        let path = path.display().to_string();
        // Modules of tests come last.
        let code = text.split("\n#[cfg(test)]").next().unwrap_or_default();
        for (number, line) in (1..).zip(code.lines()) {
            if line.trim_start().starts_with("//") {
                continue;
            }
            for word in ["Instant::now", "SystemTime", "thread::spawn", "HashMap", "HashSet", "static mut"] {
                if line.contains(word) && !ALLOWED.contains(&(path.as_str(), word)) {
                    faults.push(format!("{path}:{number}: {word}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_path_of_a_machine_is_named() {
    // In pieces, so that this file does not name one.
    let machines = [["/home", "/"], ["/root", "/"], ["/Users", "/"]].map(|parts| parts.concat());
    let root = root();
    let kinds = [".rs", ".md", ".toml", ".fio", ".sh"];
    let all = kinds.iter().flat_map(|ending| files(&root, ending));
    let mut faults = Vec::new();
    for path in all {
        let text = fs::read_to_string(&path).unwrap_or_default();
        for (number, line) in (1..).zip(text.lines()) {
            // `/home/you` is anybody's.
            let named = machines.iter().find(|machine| line.replace("/home/you", "").contains(machine.as_str()));
            if let Some(machine) = named {
                faults.push(format!("{}:{number}: {machine}", path.strip_prefix(&root).unwrap().display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
