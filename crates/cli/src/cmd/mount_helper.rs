//! The ways in which mount(8) calls: as `mount.seamount SOURCE DIR [-sfnv] [-o ...]`, and, for the type
//! `fuse.seamount`, by way of mount.fuse as `seamount SOURCE DIR -o ...`. Both become `mount --background`.

use crate::args::Cli;
use crate::error::{CliError, Result};
use clap::CommandFactory;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// What mount(8) wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Called {
    /// The words of an ordinary command line, without the program's name.
    Words(Vec<OsString>),
    /// Nothing: everything but the mount itself was to be tried.
    Nothing,
}

/// The exit code of a mount helper that failed, as mount(8) has it.
pub fn exit_code(error: &CliError) -> u8 {
    if error.code() == 2 { 1 } else { 32 }
}

/// Whether this is a call by mount(8): the words behind the program's name, if so.
pub fn is_call(words: &[OsString]) -> Option<&[OsString]> {
    let name = words.first().map(Path::new).and_then(Path::file_name).unwrap_or(OsStr::new(""));
    let name = name.to_string_lossy();
    if name == "mount.seamount" || name == "mount.fuse.seamount" {
        return Some(&words[1..]);
    }
    let first = words.get(1)?;
    if first == "mount.seamount" {
        return Some(&words[2..]);
    }
    // mount.fuse puts the options behind both places; without any there are exactly two.
    let is_verb = Cli::command()
        .get_subcommands()
        .any(|verb| first == verb.get_name() || verb.get_all_aliases().any(|alias| first == alias));
    let is_place = |word: &OsString| !word.as_encoded_bytes().starts_with(b"-");
    let looks_so = !is_verb
        && first != "help"
        && is_place(first)
        && words.get(2).is_some_and(is_place)
        && words.get(3).is_some_and(|word| word == "-o");
    looks_so.then(|| &words[1..])
}

/// From the words of mount(8) to ours.
pub fn translate(words: &[OsString]) -> Result<Called> {
    let mut places = Vec::new();
    let mut options = Vec::new();
    let (mut sloppy, mut fake, mut verbose) = (false, false, false);
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let bytes = word.as_encoded_bytes();
        if bytes == b"-o" || bytes == b"-t" || bytes == b"-N" {
            let Some(value) = rest.next() else {
                return Err(CliError::usage(format!("{} needs a value", word.display())));
            };
            if bytes == b"-o" {
                options.push(value.clone());
            }
        } else if bytes.len() > 1 && bytes[0] == b'-' {
            for letter in &bytes[1..] {
                match letter {
                    b's' => sloppy = true,
                    b'f' => fake = true,
                    b'v' => verbose = true,
                    b'n' => {}
                    _ => {
                        let words = format!("mount.seamount: unknown option {}", word.display());
                        return Err(CliError::usage(words).hint(
                            "it is called as mount.seamount SOURCE DIR [-sfnv] [-o OPTIONS]",
                        ));
                    }
                }
            }
        } else {
            places.push(word.clone());
        }
    }
    if places.len() != 2 {
        return Err(CliError::usage("mount.seamount needs a source and a directory")
            .hint("it is called as mount.seamount SOURCE DIR [-sfnv] [-o OPTIONS]"));
    }
    if fake {
        return Ok(Called::Nothing);
    }
    let mut out: Vec<OsString> = vec!["mount".into(), "--background".into()];
    if sloppy {
        out.push("--sloppy".into());
    }
    if !verbose {
        out.push("--quiet".into());
    }
    for option in options {
        out.push("-o".into());
        out.push(option);
    }
    out.push("--".into());
    out.extend(places);
    Ok(Called::Words(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn calls_are_known() {
        for text in [
            "/sbin/mount.seamount /s /m -o rw",
            "/usr/sbin/mount.seamount /s /m",
            "seamount mount.seamount /s /m -o rw",
            "seamount /s /m -o rw,dev,suid",
            "seamount local:///s#v /m -o rw",
        ] {
            assert!(is_call(&words(text)).is_some(), "{text}");
        }
        for text in [
            "seamount mount /s /m -o rw",
            "seamount status",
            "seamount help mount -o",
            "seamount /s",
        ] {
            assert!(is_call(&words(text)).is_none(), "{text}");
        }
    }

    #[test]
    fn calls_become_ordinary_words() {
        let translated = |text: &str| translate(&words(text)).unwrap();
        assert_eq!(
            translated("/s /m -o rw,noatime"),
            Called::Words(words("mount --background --quiet -o rw,noatime -- /s /m"))
        );
        assert_eq!(
            translated("/s -sv /m -n -t fuse.seamount"),
            Called::Words(words("mount --background --sloppy -- /s /m"))
        );
        assert_eq!(translated("/s /m -f"), Called::Nothing);
        assert!(translate(&words("/s")).is_err());
        assert!(translate(&words("/s /m -x")).is_err());
        assert!(translate(&words("/s /m -o")).is_err());
    }
}
