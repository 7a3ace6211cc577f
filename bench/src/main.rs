//! The command line: which measurement to run.

mod core_bench;
mod error;
mod given;
mod kv_bench;
mod process;
mod scratch;
mod table;

use std::process::ExitCode;

/// For all engines alike. Without it, each thread's arena keeps what other threads free, and resident
/// memory says more of the allocator than of an engine.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const USAGE: &str = "\
usage: bench kv [options]
       bench core [options]

kv

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

core

Runs the operations of the filesystem's core on the embedded engine, and raw transactions of the same
keys beside them, in one interleaved run, and prints the ratio.

  --files N         files loaded into both sides before anything is measured (200000)
  --passes P        measured passes of each work; their median is printed (3)
  --work A,B        of mknod, create, mkdir, lookup, missing, getattr, rename, unlink, readdirplus,
                    write-inline, read-inline, write-4k, read-4k, write-64k, read-64k, write-1m,
                    read-1m (all)
  --only A,B        of work, memory (both; work alone with --work)
  --threads N       threads that do the work (1)
  --codec C         how the volume compresses: none, lz4 or zstd (lz4)
  --dir PATH        as above
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((command, rest)) if command == "core" => core_bench::run(rest),
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
