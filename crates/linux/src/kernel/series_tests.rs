//! Patches of one series fit together, which needs no source: what one of them has left is what the next finds.

use std::collections::BTreeMap;

use super::recipe::{Patch, Recipe};

/// Lines of a file that patches have shown, by number.
type Known = BTreeMap<usize, String>;

/// `patch` looks for a hunk's text so far around the place that is named.
const MOST_OFFSET: isize = 1000;

/// A part of a patch.
struct Hunk {
    first: usize,
    old: Vec<String>,
    new: Vec<String>,
}

/// The hunks of a patch, by file.
fn hunks(patch: &Patch) -> Vec<(String, Hunk)> {
    let text = String::from_utf8_lossy(&patch.text).into_owned();
    let mut lines = text.lines();
    let (mut name, mut hunks) = (String::new(), Vec::new());
    while let Some(line) = lines.next() {
        if let Some(new) = line.strip_prefix("+++ ") {
            name = new.split_whitespace().next().unwrap_or_default().trim_start_matches("b/").to_owned();
        }
        let Some((old, new)) = line.strip_prefix("@@ -").and_then(ranges) else { continue };
        let mut hunk = Hunk { first: old.0, old: Vec::new(), new: Vec::new() };
        while hunk.old.len() < old.1 || hunk.new.len() < new.1 {
            let line = lines.next().unwrap_or_else(|| panic!("{}: {name}: a hunk ends early", patch.name));
            let (kind, rest) = line.split_at_checked(1).unwrap_or((" ", ""));
            if kind != "+" {
                hunk.old.push(rest.to_owned());
            }
            if kind != "-" {
                hunk.new.push(rest.to_owned());
            }
        }
        hunks.push((name.clone(), hunk));
    }
    hunks
}

/// Where a hunk goes: as near as can be to where it says, with nothing that is known in its way; elsewhere only where half of it is known.
fn place(known: &Known, hunk: &Hunk, shift: isize) -> Option<usize> {
    let fits = |at: usize| {
        let lines = hunk.old.iter().zip(at..).map(|(line, number)| known.get(&number).map(|there| there == line));
        let (mut same, mut other) = (0, 0);
        lines.flatten().for_each(|is_same| if is_same { same += 1 } else { other += 1 });
        (same, other)
    };
    let named = hunk.first.saturating_add_signed(shift);
    let offsets = std::iter::once(0).chain((1..=MOST_OFFSET).flat_map(|offset| [-offset, offset]));
    offsets.filter_map(|offset| Some((offset, named.checked_add_signed(offset)?))).find_map(|(offset, at)| {
        let (same, other) = fits(at);
        (other == 0 && (offset == 0 || same * 2 >= hunk.old.len())).then_some(at)
    })
}

/// Applies a patch to what is known; an error where it finds another text than what is known.
fn apply(files: &mut BTreeMap<String, Known>, patch: &Patch) -> Result<(), String> {
    let mut shift = (String::new(), 0_isize);
    for (name, hunk) in hunks(patch) {
        if shift.0 != name {
            shift = (name.clone(), 0);
        }
        let known = files.entry(name.clone()).or_default();
        let at = place(known, &hunk, shift.1).ok_or_else(|| format!("{}: {name}, line {}", patch.name, hunk.first))?;
        let delta = hunk.new.len() as isize - hunk.old.len() as isize;
        let behind = known.split_off(&at);
        known.extend(hunk.new.into_iter().enumerate().map(|(index, line)| (at + index, line)));
        let end = at + hunk.old.len();
        let moved = behind.into_iter().filter(|(number, _)| *number >= end);
        known.extend(moved.map(|(number, line)| (number.saturating_add_signed(delta), line)));
        shift.1 += delta;
    }
    Ok(())
}

/// First line and count, before and after.
fn ranges(text: &str) -> Option<((usize, usize), (usize, usize))> {
    let (old, rest) = text.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let range = |text: &str| {
        let (first, count) = text.split_once(',').unwrap_or((text, "1"));
        Some((first.parse().ok()?, count.parse().ok()?))
    };
    Some((range(old)?, range(new)?))
}

#[test]
fn each_patch_of_a_series_finds_what_those_before_it_left() {
    for name in Recipe::names() {
        let recipe = Recipe::named(name).unwrap();
        let mut files = BTreeMap::new();
        for patch in &recipe.patches {
            apply(&mut files, patch).unwrap_or_else(|fault| panic!("{name}: {fault}"));
        }
        assert!(recipe.patches.is_empty() || !files.is_empty(), "{name}");
    }
}

#[test]
fn a_context_that_another_patch_has_changed_is_noticed() {
    let patch = |name: &str, text: &str| Patch { name: name.to_owned(), text: text.as_bytes().to_vec().into() };
    let mut files = BTreeMap::new();
    let first = patch("1", "--- a/x\n+++ b/x\n@@ -5,3 +5,4 @@\n a\n-b\n+B\n+more\n c\n");
    apply(&mut files, &first).unwrap();
    let fits = patch("2", "--- a/x\n+++ b/x\n@@ -1,2 +1,3 @@\n one\n+new\n two\n@@ -7,2 +8,1 @@\n more\n-c\n");
    assert_eq!(apply(&mut files.clone(), &fits), Ok(()));
    let other = patch("3", "--- a/x\n+++ b/x\n@@ -5,2 +5,1 @@\n a\n-b\n");
    assert!(apply(&mut files, &other).unwrap_err().contains("line 5"));
}
