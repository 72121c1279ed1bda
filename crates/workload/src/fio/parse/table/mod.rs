//! The table of supported options: the one place where an option is named.
//!
//! The parser, the printer and `docs/fio-options.md` are all made from it.

mod data;
mod ignored;
mod issue;
mod job;
mod pattern;
mod zoned;

use units::Nanos;

use super::options::Options;
use super::value::{Parsed, Value, fail, print_time};

/// An option of the job file.
pub struct OptionSpec {
    /// fio's name, the one printed.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// What a value looks like.
    pub form: &'static str,
    /// What it does here, and where that differs from fio.
    pub help: &'static str,
    /// Whether the bare name means 1.
    pub flag: bool,
    pub(super) action: Action,
}

/// How much of an option is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It has its effect.
    Modelled,
    /// It is taken, and has nothing to act on in the model.
    WithoutEffect,
}

pub(super) enum Action {
    Typed { set: fn(&mut Options, Value<'_>) -> Parsed<()>, print: fn(&Options) -> Option<String> },
    WithoutEffect,
}

impl OptionSpec {
    /// How much of it is modelled.
    pub fn support(&self) -> Support {
        match self.action {
            Action::Typed { .. } => Support::Modelled,
            Action::WithoutEffect => Support::WithoutEffect,
        }
    }
}

/// Every supported option, in the order in which they are printed.
pub fn option_specs() -> impl Iterator<Item = &'static OptionSpec> + Clone {
    [job::OPTIONS, issue::OPTIONS, pattern::OPTIONS, zoned::OPTIONS, data::OPTIONS, ignored::OPTIONS]
        .into_iter()
        .flatten()
}

pub(super) fn find(name: &str) -> Option<&'static OptionSpec> {
    option_specs().find(|spec| spec.name == name || spec.aliases.contains(&name))
}

const fn typed(
    name: &'static str,
    aliases: &'static [&'static str],
    form: &'static str,
    help: &'static str,
    set: fn(&mut Options, Value<'_>) -> Parsed<()>,
    print: fn(&Options) -> Option<String>,
) -> OptionSpec {
    OptionSpec { name, aliases, form, help, flag: false, action: Action::Typed { set, print } }
}

const fn flag(
    name: &'static str,
    aliases: &'static [&'static str],
    help: &'static str,
    set: fn(&mut Options, Value<'_>) -> Parsed<()>,
    print: fn(&Options) -> Option<String>,
) -> OptionSpec {
    OptionSpec { name, aliases, form: "0|1", help, flag: true, action: Action::Typed { set, print } }
}

const fn without_effect(name: &'static str, aliases: &'static [&'static str], help: &'static str) -> OptionSpec {
    OptionSpec { name, aliases, form: "any", help, flag: true, action: Action::WithoutEffect }
}

/// `Some(text)` where the value differs from the default.
fn unless<T: PartialEq>(value: &T, default: &T, text: impl Fn(&T) -> String) -> Option<String> {
    (value != default).then(|| text(value))
}

fn bit(on: bool) -> Option<String> {
    on.then(|| "1".to_owned())
}

fn one_of<T: Copy>(value: Value<'_>, table: &[(&str, T)]) -> Parsed<T> {
    match table.iter().find(|(name, _)| *name == value.text) {
        Some((_, chosen)) => Ok(*chosen),
        None => {
            let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
            fail(format!("`{}` is not one of {}", value.text, names.join(", ")))
        }
    }
}

fn name_of<T: PartialEq>(value: T, table: &[(&str, T)]) -> String {
    table.iter().find(|(_, known)| *known == value).map(|(name, _)| (*name).to_owned()).unwrap_or_default()
}

fn print_nonzero(time: Nanos) -> Option<String> {
    unless(&time, &Nanos::ZERO, |time| print_time(*time))
}
