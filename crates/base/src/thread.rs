//! Threads, injected: a simulation has none.

use std::fmt::Debug;
use std::io;

/// Starts threads.
pub trait Spawn: Send + Sync + Debug {
    /// Runs `body` on a thread named `name`; the handle joins it.
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Joiner>;
}

/// Joins one thread.
#[derive(Debug)]
pub struct Joiner(Option<std::thread::JoinHandle<()>>);

impl Joiner {
    /// Waits until the thread is done. A panic of the thread ends here: its message has been
    /// printed by the panic hook already.
    pub fn join(mut self) {
        if let Some(handle) = self.0.take() {
            let _ = handle.join();
        }
    }
}

/// How much a thread that stands back yields to others, of 19.
const NICE: i32 = 10;

/// Lets others go first, from here on: for a thread whose work can wait, while others have some for the CPU. Where
/// that cannot be had, it goes with them.
pub fn stand_back() {
    // On Linux the priority is that of the calling thread.
    let _ = rustix::process::setpriority_process(None, NICE);
}

/// Threads of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemThreads;

impl Spawn for SystemThreads {
    fn spawn(&self, name: &str, body: Box<dyn FnOnce() + Send>) -> io::Result<Joiner> {
        let handle = std::thread::Builder::new().name(name.to_owned()).spawn(body)?;
        Ok(Joiner(Some(handle)))
    }
}
