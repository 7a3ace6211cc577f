//! What is said on the control socket. The client sends one line of JSON, the request. The daemon
//! answers with frames: a byte for the kind, the length as four bytes (little-endian), the payload. A
//! client that loads a volume sends its bytes in such frames too, behind the line.

use crate::error::{CliError, Failure, Result};
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, Read, Write};

/// The version of this protocol.
pub const VERSION: u32 = 1;
/// The longest request.
pub const REQUEST_BYTES_MAX: usize = 64 << 10;
/// The largest payload of a frame.
pub const FRAME_BYTES_MAX: usize = 1 << 20;
/// The most bytes of data that are put into one frame.
pub const DATA_BYTES_MAX: usize = 256 << 10;

/// A request: which protocol, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// [`VERSION`].
    pub seamount: u32,
    /// What to do.
    #[serde(flatten)]
    pub request: Request,
}

/// What a command asks of an open store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum Request {
    /// The store, its volumes and mounts.
    Status,
    /// Counts and latencies of mounts.
    Stats,
    /// Mount a volume of this store too.
    Mount(MountRequest),
    /// Answer when a volume is not mounted any more. When it was the daemon's last, the answer is the
    /// end of the connection, which comes when the daemon has let go of the store.
    Wait {
        /// The volume.
        volume: String,
    },
    /// Make a volume.
    Format {
        /// Its name.
        volume: String,
        /// How.
        options: FormatRequest,
    },
    /// Remove a volume.
    Destroy {
        /// Its name.
        volume: String,
    },
    /// A volume's options.
    Options {
        /// Its name.
        volume: String,
    },
    /// Change a volume's options.
    SetOptions {
        /// Its name.
        volume: String,
        /// Bytes that data may take.
        capacity_bytes: Option<u64>,
        /// Inodes that there may be.
        inodes_max: Option<u64>,
        /// How new blocks are compressed.
        codec: Option<String>,
    },
    /// What is known of one file.
    Info {
        /// The volume.
        volume: String,
        /// The file.
        file: FileName,
    },
    /// What a directory holds.
    Summary {
        /// The volume.
        volume: String,
        /// The directory.
        file: FileName,
    },
    /// Check a volume, or repair it.
    Fsck {
        /// The volume.
        volume: String,
        /// What is done about what is found.
        #[serde(default)]
        mode: FsckMode,
        /// How many threads check; as many as the machine has when absent.
        #[serde(default)]
        threads: Option<u16>,
    },
    /// Scrub a volume.
    Scrub {
        /// The volume.
        volume: String,
        /// What about it.
        action: ScrubAction,
    },
    /// Collect garbage.
    Gc {
        /// The volume.
        volume: String,
    },
    /// Send a volume as a stream.
    Dump {
        /// The volume.
        volume: String,
    },
    /// Make a volume of a stream.
    Load {
        /// The volume.
        volume: String,
    },
}

/// What is asked of a scrub.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScrubAction {
    /// Begin, or go on.
    Start {
        /// Bytes that are read in a second at most.
        rate_bytes: Option<u64>,
        /// Begin anew.
        restart: bool,
        /// The daemon does it; nobody waits.
        background: bool,
    },
    /// How far it is.
    Status,
    /// Stop it.
    Stop,
}

/// What a check does about what it finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FsckMode {
    /// Nothing.
    #[default]
    Check,
    /// Says what a repair would do first.
    Plan,
    /// Repairs it.
    Repair,
}

/// How to find a file of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileName {
    /// By its number.
    Ino(u64),
    /// By its path in the volume, escaped as in a URL.
    Path(String),
}

fn yes() -> bool {
    true
}

/// A mount, in words that another process can act on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountRequest {
    /// The volume.
    pub volume: String,
    /// The directory, absolute, escaped as in a URL.
    pub mountpoint: String,
    /// Settings that were given: key and value.
    pub atime: String,
    /// Nothing can be changed.
    pub read_only: bool,
    /// Others may use it; the default when absent.
    pub allow_other: Option<bool>,
    /// Set-user bits count.
    pub suid: Option<bool>,
    /// Devices count.
    pub dev: Option<bool>,
    /// Programs run.
    pub exec: Option<bool>,
    /// Threads; 0 by the machine.
    pub threads: usize,
    /// Whole files are kept beside the store.
    #[serde(default = "yes")]
    pub local: bool,
    /// The kernel reads and writes them by itself, where it can.
    #[serde(default = "yes")]
    pub passthrough: bool,
    /// By what requests come; by whatever is there when absent.
    #[serde(default)]
    pub transport: Option<String>,
    /// The mount outlives its daemon: another one takes it over.
    pub supervised: bool,
    /// How long the kernel keeps attributes, in milliseconds.
    pub attr_ttl_ms: Option<u64>,
    /// How long it keeps names.
    pub entry_ttl_ms: Option<u64>,
    /// How long it keeps missing names.
    pub negative_ttl_ms: Option<u64>,
    /// Who asks: the volume's root belongs to this user when it is made now.
    pub uid: u32,
    /// The user's group.
    pub gid: u32,
}

/// How a volume is made.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FormatRequest {
    /// Bytes of a chunk.
    pub chunk_bytes: Option<u32>,
    /// Bytes of a block.
    pub block_bytes: Option<u32>,
    /// The largest inline file.
    pub inline_bytes_max: Option<u32>,
    /// How blocks are compressed.
    pub codec: Option<String>,
    /// Blocks in a parity group.
    pub parity_group: Option<u8>,
    /// Bytes that data may take.
    pub capacity_bytes: Option<u64>,
    /// Inodes that there may be.
    pub inodes_max: Option<u64>,
    /// The owner of the root directory.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its permission bits.
    pub mode: u32,
    /// Remove a volume of this name first.
    pub replace: bool,
}

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// How far the work has come.
    Progress {
        /// Done.
        done: u64,
        /// Of so many, where that is known.
        total: Option<u64>,
    },
    /// Bytes of a dump.
    Data(Vec<u8>),
    /// The work is done; its result. From a client: the data ends.
    Done(serde_json::Value),
    /// The work failed.
    Failed(CliError),
}

impl Frame {
    /// Writes it.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let (kind, payload) = match self {
            Self::Progress { done, total } => {
                (b'P', serde_json::to_vec(&(done, total)).map_err(io::Error::other)?)
            }
            Self::Data(bytes) => return write_data(to, bytes),
            Self::Done(value) => (b'R', serde_json::to_vec(value).map_err(io::Error::other)?),
            Self::Failed(error) => (b'E', serde_json::to_vec(error).map_err(io::Error::other)?),
        };
        write_frame(to, kind, &payload)
    }

    /// Reads the next one; `None` at the end of the connection.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut head = [0; 5];
        let mut got = 0;
        while got < head.len() {
            match from.read(&mut head[got..]) {
                Ok(0) if got == 0 => return Ok(None),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => got += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let len = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if len > FRAME_BYTES_MAX {
            return Err(bad("a frame is larger than frames are"));
        }
        let mut payload = vec![0; len];
        from.read_exact(&mut payload)?;
        Ok(Some(match head[0] {
            b'P' => {
                let (done, total) = serde_json::from_slice(&payload)?;
                Self::Progress { done, total }
            }
            b'D' => Self::Data(payload),
            b'R' => Self::Done(serde_json::from_slice(&payload)?),
            b'E' => Self::Failed(serde_json::from_slice(&payload)?),
            _ => return Err(bad("a frame of no known kind")),
        }))
    }
}

/// Writes bytes as frames of data.
pub fn write_data(to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    for part in bytes.chunks(DATA_BYTES_MAX) {
        write_frame(to, b'D', part)?;
    }
    Ok(())
}

fn write_frame(to: &mut impl Write, kind: u8, payload: &[u8]) -> io::Result<()> {
    let len = u32::try_from(payload.len()).ok().filter(|len| *len as usize <= FRAME_BYTES_MAX);
    let len = len.ok_or_else(|| bad("an answer is larger than a frame may be"))?;
    let mut bytes = Vec::with_capacity(5 + payload.len());
    bytes.push(kind);
    bytes.extend_from_slice(&len.to_le_bytes());
    bytes.extend_from_slice(payload);
    to.write_all(&bytes)
}

fn bad(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Reads the line of a request. An error is for the client to see.
pub fn read_request(from: &mut impl BufRead) -> Result<Request> {
    let mut line = Vec::new();
    let bound = REQUEST_BYTES_MAX as u64 + 1;
    from.take(bound)
        .read_until(b'\n', &mut line)
        .map_err(|error| CliError::io("cannot read the request", &error))?;
    if line.last() != Some(&b'\n') {
        return Err(CliError::usage(if line.len() > REQUEST_BYTES_MAX {
            "the request is longer than 64 KiB"
        } else {
            "the request does not end with a newline"
        }));
    }
    let value: serde_json::Value = serde_json::from_slice(&line)
        .map_err(|error| CliError::usage(format!("the request is not JSON: {error}")))?;
    let version = value.get("seamount").and_then(serde_json::Value::as_u64);
    if version != Some(VERSION.into()) {
        let words = format!("the request's protocol is not {VERSION}, which this daemon speaks");
        return Err(CliError::new(Failure::Unsupported, words)
            .hint("the program and the daemon are of different versions: mount again"));
    }
    let envelope: Envelope = serde_json::from_value(value).map_err(|error| {
        CliError::usage(format!("the daemon does not know this request: {error}"))
    })?;
    Ok(envelope.request)
}

/// Writes the line of a request.
pub fn write_request(to: &mut impl Write, request: &Request) -> Result<()> {
    let envelope = Envelope { seamount: VERSION, request: request.clone() };
    let mut line = serde_json::to_vec(&envelope)
        .map_err(|error| CliError::new(Failure::Failed, error.to_string()))?;
    line.push(b'\n');
    if line.len() > REQUEST_BYTES_MAX {
        return Err(CliError::usage("the words are too long for the daemon"));
    }
    to.write_all(&line).map_err(|error| CliError::io("cannot speak to the daemon", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_read_back() {
        let frames = [
            Frame::Progress { done: 5, total: Some(10) },
            Frame::Progress { done: u64::MAX, total: None },
            Frame::Data(vec![1, 2, 3]),
            Frame::Done(serde_json::json!({"a": 1})),
            Frame::Failed(CliError::in_use("busy").hint("wait")),
        ];
        let mut bytes = Vec::new();
        for frame in &frames {
            frame.write(&mut bytes).unwrap();
        }
        let mut from = bytes.as_slice();
        for frame in &frames {
            assert_eq!(Frame::read(&mut from).unwrap().as_ref(), Some(frame));
        }
        assert_eq!(Frame::read(&mut from).unwrap(), None);
    }

    #[test]
    fn large_data_is_cut_and_large_frames_are_refused() {
        let data = vec![7; 3 * DATA_BYTES_MAX + 1];
        let mut bytes = Vec::new();
        write_data(&mut bytes, &data).unwrap();
        let (mut from, mut got) = (bytes.as_slice(), Vec::new());
        while let Some(Frame::Data(part)) = Frame::read(&mut from).unwrap() {
            got.extend(part);
        }
        assert_eq!(got, data);
        assert!(Frame::read(&mut [b'D', 255, 255, 255, 255].as_slice()).is_err());
        assert!(Frame::read(&mut [b'?', 0, 0, 0, 0].as_slice()).is_err());
        assert!(Frame::read(&mut [b'D', 9, 0].as_slice()).is_err());
        assert!(Frame::read(&mut [b'R', 1, 0, 0, 0, b'{'].as_slice()).is_err());
    }

    #[test]
    fn requests_read_back_and_others_are_refused_in_words() {
        let request = Request::Info { volume: "v".into(), file: FileName::Ino(7) };
        let mut line = Vec::new();
        write_request(&mut line, &request).unwrap();
        assert_eq!(read_request(&mut line.as_slice()).unwrap(), request);
        let long = vec![b'x'; 2 * REQUEST_BYTES_MAX];
        for (line, said) in [
            (b"{}\n".as_slice(), "protocol"),
            (b"{\"seamount\":2,\"verb\":\"status\"}\n", "protocol"),
            (b"{\"seamount\":1,\"verb\":\"fly\"}\n", "does not know"),
            (b"\xff\x00\n", "not JSON"),
            (b"{\"seamount\":1", "newline"),
            (b"", "newline"),
            (&long, "64 KiB"),
        ] {
            let error = read_request(&mut &*line).unwrap_err();
            assert!(error.message.contains(said), "{error}");
        }
    }
}
