//! The list of options as a document, made from the tables the parser uses.

use super::table::{Support, option_specs};
use super::unsupported;

/// `docs/fio-options.md`: every option the parser takes or explains.
pub fn options_document() -> String {
    let mut text = String::from(
        "# fio options\n\n\
         This file is made from the parser's own tables, and a test keeps it so. Behaviour follows fio 3.33; where it\n\
         differs, the option's line says so. Sizes take fio's suffixes (`4k`, `1m`, `kb_base`), times too (`10s`, `5ms`,\n\
         `80us`); lists separated by commas are for reads, writes and trims. `${NAME}` is replaced by the environment\n\
         variable. An option that is in none of these lists is an error that names the nearest one.\n\n\
         ## Modelled\n\n",
    );
    let row = |name: &str, aliases: &[&str], form: &str, help: &str| {
        let also = if aliases.is_empty() { String::new() } else { format!(" (also `{}`)", aliases.join("`, `")) };
        let form = if form.is_empty() { String::new() } else { format!("=`{form}`") };
        format!("- `{name}`{form}{also}: {help}\n")
    };
    for spec in option_specs().filter(|spec| spec.support() == Support::Modelled) {
        text += &row(spec.name, spec.aliases, spec.form, spec.help);
    }
    text += "\n## Taken without effect\n\nThese are read and ignored, because there is nothing in the model for them to act on.\n\n";
    for spec in option_specs().filter(|spec| spec.support() == Support::WithoutEffect) {
        text += &row(spec.name, spec.aliases, "", spec.help);
    }
    text += "\n## Not supported\n\nThese are errors that say what to do instead.\n\n";
    for group in unsupported::GROUPS {
        text += &format!("- `{}`: {}.\n", group.names.join("`, `"), group.why);
    }
    text
}
