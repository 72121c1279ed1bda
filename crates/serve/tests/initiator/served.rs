//! A server on a thread of its own.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use serve::control::Client as Control;
use serve::nvme_tcp::{Limits, Server};
use serve::subsystem::SubsystemConfig;
use serve::{ServeOptions, ServeReport, Stop};
use ssd::{Contents, Device, NullDevice, Ssd, SsdConfig};
use units::Nanos;

use super::{LBA_BYTES, NQN};

/// A running server.
pub struct Served {
    pub address: SocketAddr,
    pub log: Arc<Mutex<Vec<String>>>,
    stop: Stop,
    thread: Option<JoinHandle<ServeReport>>,
    pub dir: tempfile::TempDir,
}

impl Served {
    pub fn start(limits: Limits, device: impl FnOnce() -> Box<dyn Device> + Send + 'static) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = SubsystemConfig::new(NQN, "test");
        let server = Server::bind(&"tcp:0".parse().unwrap(), config).unwrap().with_limits(limits);
        let address = server.local_address();
        let stop = Stop::new().unwrap();
        let (asked, log) = (stop.try_clone().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let (lines, control) = (Arc::clone(&log), dir.path().join("control"));
        let thread = std::thread::spawn(move || {
            let options = ServeOptions {
                calibrate: false,
                control: Some(control),
                log: Box::new(move |line| lines.lock().unwrap().push(line.to_owned())),
                ..ServeOptions::default()
            };
            server.run(device(), &options, &asked).unwrap()
        });
        Self { address, log, stop, thread: Some(thread), dir }
    }

    /// A device that keeps nothing.
    pub fn null(limits: Limits) -> Self {
        Self::start(limits, || Box::new(NullDevice::new(1 << 16, LBA_BYTES, Nanos::from_micros(5))))
    }

    /// A device that keeps what is written.
    pub fn ssd(limits: Limits) -> Self {
        Self::ssd_of(limits, SsdConfig::reference())
    }

    /// The same with settings of one's own.
    pub fn ssd_of(limits: Limits, config: SsdConfig) -> Self {
        Self::start(limits, move || {
            let mut device = Ssd::new(&config).unwrap();
            device.keep_contents(&Contents::Memory, true).unwrap();
            device.recover_from_flash();
            Box::new(device)
        })
    }

    pub fn control(&self) -> Control {
        let path: PathBuf = self.dir.path().join("control");
        for _ in 0..500 {
            if let Ok(control) = Control::connect(&path) {
                return control;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no control socket: {:?}", self.log.lock().unwrap());
    }

    pub fn raw(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    pub fn log_contains(&self, text: &str) -> bool {
        self.log.lock().unwrap().iter().any(|line| line.contains(text))
    }

    pub fn finish(mut self) -> ServeReport {
        self.stop.ask();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            let result = thread.join();
            if !std::thread::panicking() {
                result.unwrap();
            }
        }
    }
}
