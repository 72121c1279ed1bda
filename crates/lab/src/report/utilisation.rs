//! How busy each part of the device was: a strip of heat for every channel.

use super::html::esc;
use super::number::{NONE, show};
use super::{Unit, Utilisation};

/// Dies on a channel beyond which their cells carry no number.
const NUMBERED_DIES: usize = 12;

/// The heat strip and the other parts; `None` when nothing was recorded.
pub(super) fn heat(utilisation: &Utilisation) -> Option<String> {
    let Utilisation { channels, parts } = utilisation;
    if channels.is_empty() && parts.is_empty() {
        return None;
    }
    let mut out = String::from("<div class=\"busy\">");
    if !channels.is_empty() {
        let dies = channels.iter().map(|channel| channel.dies.len()).max().unwrap_or(0);
        let dense = if dies > NUMBERED_DIES { " dense" } else { "" };
        out += &format!(
            "<div class=\"scroll\"><table class=\"heat{dense}\"><thead><tr><th></th><th>bus</th>\
             <th colspan=\"{}\">dies (busy part of the time, in %)</th></tr></thead><tbody>",
            dies.max(1)
        );
        for (index, channel) in channels.iter().enumerate() {
            out += &format!("<tr><th scope=\"row\">channel {index}</th>");
            out += &cell(channel.bus, &format!("Channel {index} bus"), " class=\"bus\"");
            for (die, busy) in channel.dies.iter().enumerate() {
                // How a device numbers its dies through is its own affair.
                out += &cell(*busy, &format!("Channel {index}, its die {}", die + 1), "");
            }
            out += "</tr>";
        }
        out += "</tbody></table></div>";
        if dies > NUMBERED_DIES {
            out += "<div class=\"shades\"><span>busy</span><div>";
            out += &(0..20)
                .map(|step| format!("<i class=\"shade\" style=\"--heat:{:.3}\"></i>", f64::from(step) / 19.0))
                .collect::<String>();
            out += "</div><ol><li style=\"left:0%\">0\u{a0}%</li><li style=\"left:50%\">50\u{a0}%</li><li style=\"left:100%\">100\u{a0}%</li></ol></div>";
        }
    }
    if !parts.is_empty() {
        out += "<table class=\"parts\"><tbody>";
        for (name, busy) in parts {
            out += &format!(
                "<tr><th scope=\"row\">{}</th><td class=\"bar\"><i class=\"gauge\" style=\"width:{:.1}%\"></i></td>\
                 <td class=\"n\">{}</td></tr>",
                esc(name),
                within(*busy) * 100.0,
                show(*busy, &Unit::Fraction)
            );
        }
        out += "</tbody></table>";
    }
    Some(out + "</div>\n")
}

fn cell(busy: f64, name: &str, class: &str) -> String {
    let number = if busy.is_finite() { format!("{:.0}", busy * 100.0) } else { NONE.to_owned() };
    let heat = within(busy);
    // Text must stand out from its ground; dark pages change sides earlier.
    let dark = match heat {
        0.0..0.5 => "",
        0.5..0.8 => " class=\"mid\"",
        _ => " class=\"over\"",
    };
    format!(
        "<td{class} style=\"--heat:{heat:.3}\" title=\"{name}: {}\"><span{dark}>{number}</span></td>",
        show(busy, &Unit::Fraction)
    )
}

fn within(busy: f64) -> f64 {
    if busy.is_finite() { busy.clamp(0.0, 1.0) } else { 0.0 }
}
