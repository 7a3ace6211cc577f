//! One CPU for the whole benchmark: where client and server run outweighs most of what is measured.

use super::error::Error;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The CPUs that this process may run on.
pub fn allowed_cpus() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.map(parse).unwrap_or_default()
}

/// "0-3,8" as numbers.
fn parse(list: &str) -> Vec<usize> {
    let mut cpus = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            cpus.extend(first..=last);
        }
    }
    cpus
}

/// Starts this program again with the same words on the first CPU that it may use. Returns at once
/// if there is only one, else only with an error. Whoever serves the directories is pinned by the user.
pub fn rerun_on_one_cpu() -> Result<(), Error> {
    let cpus = allowed_cpus();
    let [first, _, ..] = cpus[..] else { return Ok(()) };
    let program = std::env::current_exe().map_err(|error| {
        Error::Asked(format!("--pin: this program's own file was not found: {error}"))
    })?;
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let error =
        Command::new("taskset").arg("-c").arg(first.to_string()).arg(program).args(words).exec();
    Err(Error::Asked(format!("--pin: taskset (of util-linux) could not be run: {error}")))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_list_of_cpus_is_read() {
        assert_eq!(parse("\t0-2,7\n"), [0, 1, 2, 7]);
        assert_eq!(parse("5"), [5]);
        assert_eq!(parse(""), [0usize; 0]);
    }
}
