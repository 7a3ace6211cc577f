//! Doors for the fuzzers: what comes over the control socket, the config file, and words of options.
//!
//! Each function takes arbitrary bytes and must return: never with a panic, and never after allocating more
//! than the input can justify, or the bound of a frame.

use crate::cmd::mount_helper;
use crate::config::Settings;
use crate::control::protocol::{DATA_BYTES_MAX, Frame, read_request, write_request};
use crate::mount_words::MountWords;
use crate::store::{StoreName, escape, unescape};
use crate::units;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// Reads a request, and frames; what is understood is written and read back the same.
pub fn control(bytes: &[u8]) {
    let mut line = bytes.to_vec();
    line.push(b'\n');
    for request in [bytes, &line] {
        let Ok(request) = read_request(&mut &*request) else { continue };
        let mut again = Vec::new();
        if write_request(&mut again, &request).is_ok() {
            assert_eq!(read_request(&mut again.as_slice()).ok(), Some(request));
        }
    }
    let mut from = bytes;
    while let Ok(Some(frame)) = Frame::read(&mut from) {
        // Numbers with a point lose their last digit on the way; data goes in as many frames as it needs.
        let is_one = match &frame {
            Frame::Done(_) => false,
            Frame::Data(data) => (1..=DATA_BYTES_MAX).contains(&data.len()),
            Frame::Progress { .. } | Frame::Failed(_) => true,
        };
        let mut again = Vec::new();
        if is_one && frame.write(&mut again).is_ok() {
            assert_eq!(Frame::read(&mut again.as_slice()).ok().flatten(), Some(frame));
        }
    }
}

/// Reads a config file.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = Settings::from_toml(text);
}

/// Reads the words of `-o`, those of mount(8), environment variables, names of stores, sizes and times.
pub fn words(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        for sloppy in [false, true] {
            let _ = MountWords::read(text.lines(), sloppy);
        }
        for word in text.split(',') {
            let _ = units::parse_size(word).map(units::size);
            let _ = units::parse_time(word).map(units::time);
        }
    }
    let parts = || bytes.split(|byte| *byte == b' ').map(|word| OsString::from_vec(word.to_vec()));
    let all: Vec<OsString> = parts().collect();
    let _ = mount_helper::translate(&all);
    let vars = parts().map(|word| {
        let word = word.into_vec();
        let at = word.iter().position(|byte| *byte == b'=').unwrap_or(word.len());
        let name = [b"SEAMOUNT_", &word[..at]].concat();
        (OsString::from_vec(name), OsString::from_vec(word[at..].to_vec()))
    });
    let _ = Settings::from_env(vars);
    let _ = StoreName::parse(OsStr::from_bytes(bytes));
    assert_eq!(unescape(escape(bytes).as_bytes()).as_deref(), Some(bytes));
    let _ = unescape(bytes);
}
