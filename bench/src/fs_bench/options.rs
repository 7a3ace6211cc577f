//! The options of the command line.

use super::mapped;
use crate::error::{Error, Result};
use crate::given::Given;
use std::path::PathBuf;

const PASSES: u32 = 3;

/// What to measure, and how.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) passes: Option<u32>,
    pub(crate) files: Option<u64>,
    pub(crate) quick: bool,
    /// Names of workloads; none means all.
    pub(crate) only: Vec<String>,
    /// More directories to measure in, with their names.
    pub(crate) also: Vec<(String, PathBuf)>,
    /// Pinned, free, or both.
    pub(crate) runs: Vec<bool>,
    pub(crate) svg_dir: Option<PathBuf>,
    pub(crate) dir: Option<PathBuf>,
}

impl Options {
    pub(crate) fn parse(arguments: &[String]) -> Result<Self> {
        let mut given = Given::with_flags(arguments, &["--quick"])?;
        let only: Option<String> = given.take("--only")?;
        let also: Vec<String> = given.all("--also")?;
        let runs: Option<String> = given.take("--runs")?;
        let options = Self {
            passes: given.take("--passes")?,
            files: given.take("--files")?,
            quick: given.flag("--quick"),
            only: only
                .map(|words| words.split(',').map(str::to_owned).collect())
                .unwrap_or_default(),
            also: also.iter().map(|word| named(word)).collect::<Result<_>>()?,
            runs: match runs.as_deref() {
                None => vec![true, false],
                Some("pinned") => vec![true],
                Some("free") => vec![false],
                Some(other) => {
                    return Err(Error::new(format!("--runs {other}: give pinned or free")));
                }
            },
            svg_dir: given.take("--svg-dir")?,
            dir: given.take("--dir")?,
        };
        given.finish()?;
        if options.passes == Some(0) {
            return Err(Error::new("--passes 0: give a number above zero"));
        }
        Ok(options)
    }

    pub(crate) fn passes(&self) -> u32 {
        self.passes.unwrap_or(if self.quick { 1 } else { PASSES })
    }

    pub(crate) fn wants(&self, work: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == work)
    }

    pub(crate) fn only_mapped(&self) -> bool {
        !self.only.is_empty() && self.only.iter().all(|only| only == mapped::NAME)
    }

    /// The same, in the words of `seamount bench`.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = vec!["--passes".to_owned(), self.passes().to_string()];
        if let Some(files) = self.files {
            words.extend(["--files".to_owned(), files.to_string()]);
        }
        if self.quick {
            words.push("--quick".to_owned());
        }
        let only: Vec<&str> =
            self.only.iter().map(String::as_str).filter(|only| *only != mapped::NAME).collect();
        if !only.is_empty() {
            words.extend(["--only".to_owned(), only.join(",")]);
        }
        words
    }
}

fn named(word: &str) -> Result<(String, PathBuf)> {
    let wrong = || Error::new(format!("--also {word}: give NAME=DIR"));
    let (name, dir) = word.split_once('=').ok_or_else(wrong)?;
    if name.is_empty() || dir.is_empty() {
        return Err(wrong());
    }
    Ok((name.to_owned(), PathBuf::from(dir)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Options> {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        Options::parse(&words)
    }

    #[test]
    fn options_become_words_of_the_programs_own_benchmark() -> Result<()> {
        let options = parse("--quick --only unlink,mmap-read-4k --also jfs=/mnt/jfs")?;
        assert_eq!(options.words().join(" "), "--passes 1 --quick --only unlink");
        assert!(options.wants("mmap-read-4k") && !options.only_mapped());
        assert_eq!(options.also, [("jfs".to_owned(), PathBuf::from("/mnt/jfs"))]);
        assert_eq!(options.runs, [true, false]);
        Ok(())
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for words in ["--also jfs", "--runs both", "--passes 0", "--passes", "--fast 1"] {
            assert!(parse(words).is_err(), "{words}");
        }
    }
}
