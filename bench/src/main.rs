//! The command line: which measurement to run.

mod error;
mod kv_bench;

use std::process::ExitCode;

/// For all engines alike. Without it, each thread's arena keeps what other threads free, and resident
/// memory says more of the allocator than of an engine.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const USAGE: &str = "\
usage: bench kv [options]

Runs the work of a filesystem's metadata on the embedded engine and on others beside it, in one
interleaved run, and prints what each of them did.

  --inodes N        files loaded into each engine before anything is measured (1000000)
  --records N       the same, counted in records, four to a file; engines: local alone
  --engines A,B     of local, redb, redb-process, fjall, fjall-lean, lmdb
                    (local,redb,fjall,lmdb)
  --only A,B        of work, writes, crash, memory (all)
  --work A,B        of create, together, synced, lookup, readdir, rename, unlink (all)
  --seconds S       length of a measured cell (1)
  --ops N           end a cell after N operations instead; a tenth of it for readdir and synced work
  --passes P        measured passes of each cell; their median is printed (5)
  --seed N          of the random choices (1)
  --dir PATH        where the stores are made (beside the program); removed afterwards
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((command, rest)) if command == "kv" => kv_bench::run(rest),
        Some((command, rest)) if command == kv_bench::CHILD => kv_bench::run_child(rest),
        Some((command, _)) if command == "--help" || command == "help" => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
