//! The pages of the documentation lead somewhere: every link has its end, and every page stands in the table of contents.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The pages that people read: of the root, of docs/, and beside crates, devices and peers.
fn pages() -> Vec<PathBuf> {
    let mut pages = Vec::new();
    let mut folders = vec![(root(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() && depth < 2 && name != "target" && !name.starts_with('.') {
                folders.push((path, depth + 1));
            } else if name.ends_with(".md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// Ends of the links `[text](end)` of a page, without what stands in code.
fn links(text: &str) -> Vec<String> {
    let mut fenced = false;
    let mut links = Vec::new();
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced || line.starts_with("    ") {
            continue;
        }
        // Every second part stands between backquotes.
        let outside: String = line.split('`').step_by(2).collect();
        let ends = outside.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        links.extend(ends.map(|(end, _)| end.to_owned()));
    }
    links
}

/// The name that a heading has as the end of a link, as on code-hosting sites.
fn anchor(heading: &str) -> String {
    let kept = heading.trim_start_matches('#').trim().to_lowercase();
    let kept: String = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).collect();
    kept.replace(' ', "-")
}

fn anchors(text: &str) -> BTreeSet<String> {
    text.lines().filter(|line| line.starts_with('#')).map(anchor).collect()
}

/// What is wrong with one link of a page.
fn fault(page: &Path, text: &str, link: &str) -> Option<String> {
    if link.starts_with("https://") || link.starts_with("http://") {
        return None;
    }
    let (file, place) = link.split_once('#').map_or((link, None), |(file, place)| (file, Some(place)));
    let end = if file.is_empty() { page.to_owned() } else { page.parent().unwrap().join(file) };
    let Ok(end) = end.canonicalize() else { return Some(format!("{link}: there is no such file")) };
    if !end.starts_with(root()) {
        return Some(format!("{link}: outside of the project"));
    }
    let other;
    let there = if file.is_empty() {
        text
    } else if place.is_some() {
        other = fs::read_to_string(&end).unwrap();
        &other
    } else {
        return None;
    };
    let place = place.filter(|place| !anchors(there).contains(*place))?;
    Some(format!("{link}: no heading is called `{place}`"))
}

#[test]
fn every_link_has_its_end() {
    let (mut faults, mut seen) = (Vec::new(), 0);
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            seen += 1;
            let name = page.strip_prefix(root()).unwrap().display();
            faults.extend(fault(&page, &text, &link).map(|fault| format!("{name}: {fault}")));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(seen > 100, "only {seen} links were found");
}

#[test]
fn every_page_stands_in_the_table_of_contents() {
    let docs = root().join("docs");
    let contents: Vec<String> = links(&fs::read_to_string(docs.join("SUMMARY.md")).unwrap());
    let there =
        pages().into_iter().filter_map(|page| Some(page.strip_prefix(&docs).ok()?.to_string_lossy().into_owned()));
    let pages: BTreeSet<String> = there.filter(|name| name != "SUMMARY.md").collect();
    let listed: BTreeSet<String> = contents.iter().cloned().collect();
    assert_eq!(listed, pages, "left: docs/SUMMARY.md, right: docs/");
    assert_eq!(listed.len(), contents.len(), "a page is listed twice");
}

#[test]
fn a_link_without_its_end_is_found() {
    let page = root().join("README.md");
    let text = "# One heading, two\n[a](docs/linux.md) `[no](link)`\n```\n[no](link)\n```\n[b](docs/no.md) [c](#one-heading-two) [d](#no)";
    assert_eq!(links(text), ["docs/linux.md", "docs/no.md", "#one-heading-two", "#no"]);
    let faults: Vec<bool> = links(text).iter().map(|link| fault(&page, text, link).is_some()).collect();
    assert_eq!(faults, [false, true, false, true]);
    assert!(fault(&page, text, "docs/linux.md#no-such-place").is_some());
    assert!(fault(&page, text, "docs/linux.md#the-kernel").is_none());
}
