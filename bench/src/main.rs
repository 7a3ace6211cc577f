//! The command line: which measurement to run.

mod core_bench;
mod cpu;
mod error;
mod fs_bench;
mod given;
mod grow_bench;
mod kv_bench;
mod process;
mod programs;
mod scratch;
mod server;
mod table;

use std::process::ExitCode;

/// For all engines alike. Without it, each thread's arena keeps what other threads free, and resident
/// memory says more of the allocator than of an engine.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const USAGE: &str = "\
usage: bench kv [options]
       bench core [options]
       bench fs [options]
       bench grow [options]

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

fs

Measures a mounted volume beside the native filesystem, a server that answers from memory and one that
passes data through to a directory, in one interleaved run on one CPU and in one left to the scheduler,
and prints which bars were reached. Mounts and unmounts all of it. As root.

  --passes P        of which the median counts (3, quick: 1)
  --files N         files of each metadata workload (10000, quick: 2000)
  --quick           short passes
  --only A,B        workloads by the names in the table (all)
  --runs R          pinned or free (both)
  --also NAME=DIR   one more directory to measure in, such as another filesystem's mount; several times
  --svg-dir DIR     draw the ratios into pinned.svg and free.svg there
  --dir PATH        where all is made, on the filesystem to compare with (beside the program)

grow

Mounts a volume, fills it with empty files and measures on one CPU what an operation costs at 10,000
files and at ten times as many, again and again: first in directories of 1,000, then in one directory.
Then random pages of a sparse file of 1 TiB and of a dense one. As root.

  --to N            files at the last step (10000000)
  --ops N           operations of each kind that are measured at a step (10000)
  --threads N       threads that make the files (4)
  --dense-gib N     size of the dense file (4)
  --only A,B        of spread, single, large (all)
  --svg-dir DIR     draw the growth into grow-spread.svg and grow-single.svg there
  --dir PATH        as above
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((command, rest)) if command == "core" => core_bench::run(rest),
        Some((command, rest)) if command == "fs" => fs_bench::run(rest),
        Some((command, rest)) if command == "grow" => grow_bench::run(rest),
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
