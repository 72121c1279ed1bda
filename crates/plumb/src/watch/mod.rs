//! `plumb control … watch`: a screen that shows a served device at work.

mod sample;
mod screen;
mod zone_map;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serve::control::{Client, ClientError, Request, Status, ZonePage};
use units::Nanos;

use crate::commands::Done;
use crate::failure::Failure;
use sample::View;
pub use sample::bytes;

/// Zones fetched for one picture, in pages of what a reply holds.
const MAX_PAGES: u32 = 16;
/// Zones of a page.
const PAGE_ZONES: u32 = 4096;
/// Looking more often would measure the looking.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(50);

/// Shows the device until somebody quits.
pub fn watch(mut client: Client, interval: Nanos) -> Done {
    if !std::io::stdout().is_terminal() {
        return Err(Failure::input("watch needs a terminal; `status --json` is for programs"));
    }
    let machine = |error: &dyn std::error::Error| Failure::Machine(error.to_string());
    let mut view = View::new(fetch_status(&mut client).map_err(|error| machine(&error))?);
    let mut terminal = ratatui::try_init().map_err(|error| machine(&error))?;
    let ended = show(&mut terminal, &mut client, &mut view, Duration::from_nanos(interval.0).max(SHORTEST_INTERVAL));
    // Not `restore`, which panics where standard error is gone.
    let restored = ratatui::try_restore();
    ended.map_err(|error| machine(&error))?;
    restored.map_err(|error| machine(&error))?;
    Ok(ExitCode::SUCCESS)
}

/// Why the screen ended before somebody quit.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the terminal failed: {0}")]
    Terminal(#[from] std::io::Error),
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    client: &mut Client,
    view: &mut View,
    interval: Duration,
) -> Result<(), WatchError> {
    loop {
        view.zones = fetch_zones(client, view.status())?;
        terminal.draw(|frame| screen::draw(frame, view))?;
        let next = Instant::now() + interval;
        loop {
            let left = next.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            if event::poll(left)? {
                match event::read()? {
                    Event::Key(key) if quits(key) => return Ok(()),
                    Event::Resize(..) => {
                        terminal.draw(|frame| screen::draw(frame, view))?;
                    }
                    _ => {}
                }
            }
        }
        view.update(fetch_status(client)?);
    }
}

fn quits(key: KeyEvent) -> bool {
    let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    key.kind == KeyEventKind::Press && (matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) || interrupt)
}

fn fetch_status(client: &mut Client) -> Result<Status, ClientError> {
    client.ask(&Request::Status)
}

/// The zones of the first namespace, if it has some.
fn fetch_zones(client: &mut Client, status: &Status) -> Result<Option<ZonePage>, ClientError> {
    let Some(namespace) = status.namespaces.first().filter(|namespace| namespace.zones > 0) else { return Ok(None) };
    let ask = |client: &mut Client, from| -> Result<ZonePage, ClientError> {
        client.ask(&Request::Zones { nsid: namespace.nsid, from, count: PAGE_ZONES })
    };
    let mut page = ask(client, 0)?;
    for number in 1..MAX_PAGES.min(page.total.div_ceil(PAGE_ZONES)) {
        page.zones.extend(ask(client, number * PAGE_ZONES)?.zones);
    }
    Ok(Some(page))
}
