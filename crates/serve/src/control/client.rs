//! The other end of the control socket.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::message::{Reply, Request};

/// How long a reply may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why the server did not do as asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody is there.
    #[error("cannot connect to {}: {source}; is `plumb serve --control unix:{}` running?", .path.display(), .path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The connection failed.
    #[error("{action} failed: {source}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// The server has gone.
    #[error("the server ended the connection")]
    Gone,
    /// What came is no reply, or not to this request.
    #[error("the server's reply is not understood ({0}); is it another version of Plumb?")]
    Reply(serde_json::Error),
    /// The server refused.
    #[error("{0}")]
    Refused(String),
}

/// A connection to a control socket.
pub struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    ///
    /// When nobody serves there, or not for this user.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let fail = |source| ClientError::Connect { path: path.to_owned(), source };
        let stream = UnixStream::connect(path).map_err(fail)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(fail)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(fail)?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Asks, and waits for the reply.
    ///
    /// # Errors
    ///
    /// When the server refuses, has gone, or does not answer within ten seconds.
    pub fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, ClientError> {
        let io = |action| move |source| ClientError::Io { action, source };
        let mut line = serde_json::to_string(request).map_err(ClientError::Reply)?;
        line.push('\n');
        let sent = self.stream.get_mut().write_all(line.as_bytes()).map_err(io("sending the request"));
        line.clear();
        // A server that has no place says so and closes: the request does not go out, and the reason is there.
        let received = self.stream.read_line(&mut line).map_err(io("waiting for the reply"));
        if !matches!(received, Ok(bytes) if bytes > 0) {
            sent?;
            received?;
            return Err(ClientError::Gone);
        }
        match serde_json::from_str(&line).map_err(ClientError::Reply)? {
            Reply::Done { result } => serde_json::from_value(result).map_err(ClientError::Reply),
            Reply::Failed { error } => Err(ClientError::Refused(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_server_that_turns_a_client_away_is_heard() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let listener = UnixListener::bind(&path).unwrap();
        let mut client = Client::connect(&path).unwrap();
        let (mut turned_away, _) = listener.accept().unwrap();
        turned_away.write_all(b"{\"error\":\"there is no place\"}\n").unwrap();
        drop(turned_away);
        let error = client.ask::<serde_json::Value>(&Request::Status).unwrap_err();
        assert!(matches!(&error, ClientError::Refused(why) if why == "there is no place"), "{error}");
        // What fails without a word is told as it is.
        let error = client.ask::<serde_json::Value>(&Request::Status).unwrap_err();
        assert!(matches!(error, ClientError::Io { .. } | ClientError::Gone), "{error}");
    }
}
