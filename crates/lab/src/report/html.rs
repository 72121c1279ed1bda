//! Text on its way into a page.

use std::fmt;

/// Text from outside, fit for element content and quoted attributes.
///
/// Control characters that no document may hold become U+FFFD.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write;
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\n' | '\t' => f.write_char(c)?,
                '\r' | '\u{fffe}' | '\u{ffff}' => f.write_char('\u{fffd}')?,
                c if c.is_control() => f.write_char('\u{fffd}')?,
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Shorthand for [`Escaped`].
pub(super) fn esc(text: &str) -> Escaped<'_> {
    Escaped(text)
}

/// A section that the table of contents links to.
pub(super) struct Section {
    /// Its anchor: letters only.
    pub(super) id: &'static str,
    /// Its heading.
    pub(super) heading: &'static str,
    /// Its content.
    pub(super) body: String,
}

impl Section {
    pub(super) fn html(&self) -> String {
        let Self { id, heading, body } = self;
        format!("<section id=\"{id}\"><h2>{heading}</h2>\n{body}</section>\n")
    }
}

/// Several views of the same thing, one shown at a time; all of them on paper.
/// `name` is unique in the page.
pub(super) fn views(name: &str, views: &[(&str, String)]) -> String {
    let mut out = String::from("<div class=\"views\">");
    for (index, (label, _)) in views.iter().enumerate() {
        let checked = if index == 0 { " checked=\"checked\"" } else { "" };
        out += &format!(
            "<input type=\"radio\" name=\"{name}\" id=\"{name}-{index}\"{checked}/><label for=\"{name}-{index}\">{}</label>",
            esc(label)
        );
    }
    for (_, body) in views {
        out += &format!("<div class=\"view\">{body}</div>");
    }
    out + "</div>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_through() {
        let hostile = "</pre><script>alert('1')</script> \"x\" & \u{0}\u{1b}\r\n";
        let safe = esc(hostile).to_string();
        assert!(!safe.contains(['<', '>', '"', '\'', '\u{0}', '\u{1b}', '\r']));
        assert!(safe.starts_with("&lt;/pre&gt;&lt;script&gt;alert(&#39;1&#39;)"));
        assert!(safe.ends_with("&amp; \u{fffd}\u{fffd}\u{fffd}\n"));
    }
}
