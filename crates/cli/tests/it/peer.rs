//! Another process that does single steps on command, for proofs that need two processes or a
//! shared mapping. It is a small C program, built once with the compiler driver that Rust links
//! with.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;

use crate::tool::{has, run};

/// The other process. It is killed when dropped.
pub(crate) struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts one, or says loudly why not.
    pub(crate) fn start(proof: &str) -> Option<Self> {
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        if !has(proof, &["cc"]) {
            return None;
        }
        let program = PROGRAM.get_or_init(|| {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/programs/peer.c");
            let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("peer");
            // Under a name of its own first: another run may be using the last one.
            let fresh = program.with_extension(std::process::id().to_string());
            run(Command::new("cc").args(["-O1", "-Wall", "-Werror", "-o"]).arg(&fresh).arg(source));
            std::fs::rename(fresh, &program).unwrap();
            program
        });
        let mut child =
            Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Some(Self { child, input, output })
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to do something, without waiting for the answer.
    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        self.input.flush().unwrap();
    }

    /// Its next answer: the text behind "ok", or the number of the error.
    pub(crate) fn answer(&mut self) -> Result<String, i32> {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        let line = line.trim_end_matches('\n');
        match line.strip_prefix("ok") {
            Some(text) => Ok(text.trim_start().to_owned()),
            None => Err(line.parse().unwrap_or_else(|_| panic!("the peer said {line:?}"))),
        }
    }

    /// Does something and gives the answer.
    pub(crate) fn ask(&mut self, line: &str) -> Result<String, i32> {
        self.tell(line);
        self.answer()
    }

    /// Opens a file in a slot with flags of open(2).
    pub(crate) fn open(
        &mut self,
        slot: u32,
        flags: rustix::fs::OFlags,
        path: &Path,
    ) -> Result<String, i32> {
        self.ask(&format!("open {slot} {:o} {}", flags.bits(), path.display()))
    }

    /// Kills it, as a machine that runs out of memory would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
