//! Which call a writer makes next: drawn from a seed, and always one that must succeed.

use super::model::{Call, Kind, Model};
use base::{Random, SeededRandom};

/// Bounds of what one writer has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Names.
    pub(super) names: usize,
    /// Bytes of one file.
    pub(super) file_bytes: usize,
    /// Bytes of all its files.
    pub(super) total_bytes: usize,
    /// Bytes of one write: it must fit in one request, to happen wholly or not at all.
    pub(super) write_bytes: usize,
}

/// Directories that a writer has at most.
const DIRECTORIES: u64 = 4;
/// Numbers for names: small, so that names are used again.
const NUMBERS: u64 = 40;
/// Attributes of one file.
const KEYS: u64 = 4;

/// A writer's next call. `home` is its own directory, `shared` the beginning of its names in the common one.
pub(super) fn choose(
    model: &Model,
    random: &SeededRandom,
    bounds: Bounds,
    home: &str,
    shared: &str,
) -> Call {
    let files: Vec<&String> =
        model.names.keys().filter(|name| model.bytes(name).is_some()).collect();
    let too_much = model.names.len() >= bounds.names || model.total_bytes() >= bounds.total_bytes;
    let file =
        || (!files.is_empty()).then(|| files[random.below(files.len() as u64) as usize].clone());
    // A choice that cannot be made is made again.
    for _ in 0..100 {
        let wanted = if too_much && random.one_in(2) { 60 } else { random.below(100) };
        if let Some(call) = attempt(model, random, bounds, (home, shared), wanted, &file) {
            return call;
        }
    }
    Call::Sync { path: home.to_owned() }
}

fn attempt(
    model: &Model,
    random: &SeededRandom,
    bounds: Bounds,
    (home, shared): (&str, &str),
    wanted: u64,
    file: &dyn Fn() -> Option<String>,
) -> Option<Call> {
    let full = model.names.len() >= bounds.names || model.total_bytes() >= bounds.total_bytes;
    let fresh = || free_name(model, random, home, shared);
    let seed = random.next_u64();
    Some(match wanted {
        0..16 if !full => {
            Call::Create { path: fresh()?, mode: 0o600 | (random.below(64) as u32 & !super::UMASK) }
        }
        0..34 => {
            let path = file()?;
            let size = model.bytes(&path)?.len();
            let len = 1 + length(random, bounds.write_bytes);
            let last = bounds.file_bytes.saturating_sub(len);
            // Now and then far behind the end.
            let last = if random.one_in(8) { last } else { last.min(size + 10_000) };
            Call::Write { path, at: random.below(last as u64 + 1) as usize, len, seed }
        }
        34..46 => {
            let path = file()?;
            let len = 1 + length(random, bounds.write_bytes);
            if model.bytes(&path)?.len() + len > bounds.file_bytes {
                return Some(Call::Truncate { path, len: random.below(5000) as usize });
            }
            Call::Append { path, len, seed }
        }
        46..50 => Call::Sync { path: if random.one_in(4) { home.to_owned() } else { file()? } },
        50..54 => {
            let path = file()?;
            let size = model.bytes(&path)?.len() as u64;
            let len = random.below((size + 8192).min(bounds.file_bytes as u64)) as usize;
            Call::Truncate { path, len }
        }
        54..57 => {
            let path = file()?;
            let size = model.bytes(&path)?.len() as u64;
            let at = random.below(size.max(1)) as usize;
            Call::Punch { path, at, len: 1 + random.below(20_000) as usize }
        }
        // As much is made as removed, until there is enough.
        57..62 if !full && random.one_in(2) => return None,
        57..67 => Call::Unlink { path: something(model, random, |kind| *kind != Kind::Directory)? },
        67..75 => rename(model, random, file, fresh)?,
        75..77 => {
            let (one, other) = (file()?, file()?);
            if one == other {
                return None;
            }
            Call::Exchange { one, other }
        }
        77..80 => Call::Link { from: file()?, to: fresh()? },
        80..82 => Call::Symlink { path: fresh()?, target: format!("to-{seed:x}") },
        82..85 => {
            let path = format!("{home}/d{}", random.below(DIRECTORIES));
            if model.names.contains_key(&path) {
                return None;
            }
            Call::Mkdir { path }
        }
        85..87 => {
            let path = something(model, random, |kind| *kind == Kind::Directory)?;
            if model.has_names_below(&path) {
                return None;
            }
            Call::Rmdir { path }
        }
        87..92 => {
            let len = if random.one_in(8) { 9000 } else { 100 };
            let key = random.below(KEYS) as u8;
            Call::SetXattr { path: file()?, key, len: 1 + random.below(len) as usize, seed }
        }
        92..94 => {
            let path = file()?;
            let key = *model.node(&path)?.xattrs.keys().next()?;
            Call::RemoveXattr { path, key }
        }
        94..96 => Call::Chmod { path: file()?, mode: random.below(0o1000) as u32 },
        96..98 => Call::Times { path: file()?, secs: random.below(1 << 31) as i64 },
        // Filled in by the writer, who knows how many it has written.
        _ => Call::Record { number: 0 },
    })
}

fn rename(
    model: &Model,
    random: &SeededRandom,
    file: &dyn Fn() -> Option<String>,
    fresh: impl Fn() -> Option<String>,
) -> Option<Call> {
    if random.one_in(5) {
        let from = something(model, random, |kind| *kind == Kind::Directory)?;
        let to = format!(
            "{}{}",
            from.strip_suffix(|last: char| last.is_ascii_digit())?,
            random.below(DIRECTORIES)
        );
        if from == to || model.has_names_below(&to) {
            return None;
        }
        return Some(Call::Rename { from, to });
    }
    let from = something(model, random, |kind| *kind != Kind::Directory)?;
    let to = if random.one_in(2) { file()? } else { fresh()? };
    Some(Call::Rename { from, to })
}

/// A name that is not there, in the writer's directory, in one below it, or in the common one.
fn free_name(model: &Model, random: &SeededRandom, home: &str, shared: &str) -> Option<String> {
    let number = random.below(NUMBERS);
    let path = match random.below(4) {
        0 => format!("{shared}{number}"),
        1 => {
            let directory = something(model, random, |kind| *kind == Kind::Directory)?;
            format!("{directory}/a{number}")
        }
        _ => format!("{home}/a{number}"),
    };
    (!model.names.contains_key(&path)).then_some(path)
}

fn something(model: &Model, random: &SeededRandom, fits: impl Fn(&Kind) -> bool) -> Option<String> {
    let fits = |name: &&String| model.node(name).is_some_and(|node| fits(&node.kind));
    let names: Vec<&String> = model.names.keys().filter(fits).collect();
    (!names.is_empty()).then(|| names[random.below(names.len() as u64) as usize].clone())
}

/// A length below a bound; short ones are as likely as long ones.
fn length(random: &SeededRandom, bound: usize) -> usize {
    let bits = u64::from(usize::BITS - bound.leading_zeros());
    (random.below(1 << random.below(bits)) as usize).min(bound - 1)
}
