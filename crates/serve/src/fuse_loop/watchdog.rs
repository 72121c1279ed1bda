//! The watchdog's program: it ends the connection when the server cannot, and detaches what the server leaves.

use std::io::{self, Write};

use fuse::{End, Watch};

use super::loop_device::{LoopNumber, was_detached};
use super::memory;
use super::users::detach_from_users;

/// The watchdog process: watches over the server at the other end of standard
/// input until it says goodbye. `arguments` are the connection's number in
/// fusectl, the time without a heartbeat that counts as a stall in
/// milliseconds, and the loop device's label.
///
/// When requests wait and no heartbeat comes for that time, or the server
/// dies, the connection is aborted: everybody who waits gets an I/O error. Where
/// that is not enough the server is killed. Of a server that died the loop device
/// is detached as well.
///
/// # Errors
///
/// When the arguments are not these three, or the connection or the server cannot be found.
pub fn watchdog_main(arguments: &[String]) -> io::Result<()> {
    let [connection, stall_ms, label] = arguments else {
        return Err(io::Error::other("the watchdog is started by `plumb serve --loop`, not by hand"));
    };
    let watch = Watch::open(connection, stall_ms)?;
    // Must not itself wait for memory when it is needed.
    // What it cannot have the server could not have either, and has said so.
    memory::protect();
    let End::Death(Some(number)) = watch.run(&say)? else { return Ok(()) };
    let number = LoopNumber(number);
    let device = number.path();
    // The kernel lets it go with its last user, who may have been faster, also than the look at the label.
    let released = || say(&format!("the server died; {} was released before", device.display()));
    let users = match detach_from_users(number, label) {
        Err(error) if was_detached(&error) => {
            released();
            return Ok(());
        }
        detached => detached?,
    };
    if users.is_empty() {
        say(&format!("the server died; {} is detached", device.display()));
    } else {
        let users = users.join(", ");
        say(&format!("the server died; {} fails until it is released ({users})", device.display()));
    }
    Ok(())
}

/// Says something in one write, so that it is a line also where the server speaks.
fn say(what: &str) {
    let _ = io::stderr().write_all(format!("watchdog: {what}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wants_its_three_arguments() {
        assert!(watchdog_main(&[]).is_err());
        assert!(watchdog_main(&["x".to_owned(), "1".to_owned(), String::new()]).is_err());
    }
}
