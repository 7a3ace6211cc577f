//! The proof that an engine keeps the contract: one suite, one case for each promise, for any
//! engine.
//!
//! An engine's test binary says how to make an empty engine, and gets one test for each case:
//!
//! ```ignore
//! struct Mine;
//! impl kv::conformance::Harness for Mine {
//!     fn fresh(&self) -> Arc<dyn Engine> { Arc::new(MyEngine::in_a_new_directory()) }
//! }
//! kv::conformance_tests!(|| Mine);
//! ```
//!
//! A case is left out only because of what the engine declares in its [`Capabilities`], and says so
//! loudly. Every randomized case prints its seed; `SEAMOUNT_SEED=<n>` runs it with that one alone.
//!
//! [`Capabilities`]: crate::Capabilities

mod atomics;
mod bench;
mod commits;
mod conflicts;
mod explicit;
mod leap;
mod limits;
mod looking;
mod order;
mod own_writes;
mod paging;
mod phantoms;
mod random;
mod resources;
mod snapshots;
mod threads;
mod transact;
mod unknown;
mod watches;

pub use bench::{Bench, Harness, Probe, assert_ready_at_once};

/// A case: it panics when the promise is broken.
pub type Case = fn(&Bench<'_>);

/// All cases by name.
pub const CASES: &[(&str, Case)] = crate::conformance_tests!(@list table []);

/// Runs one case and prints what became of it.
///
/// # Panics
///
/// When there is no such case, or when the engine breaks the promise.
pub fn run_case(harness: &dyn Harness, name: &str) {
    let (_, case) = CASES
        .iter()
        .find(|(other, _)| *other == name)
        .unwrap_or_else(|| panic!("there is no case {name}"));
    let bench = Bench::new(harness, name);
    case(&bench);
    let skipped = bench.skipped();
    if skipped.is_empty() {
        println!("{name}: passed");
    }
    for reason in skipped {
        println!("{name}: SKIPPED, in whole or in part: {reason}");
        // Also where a test runner does not hide it.
        eprintln!("{name}: SKIPPED, in whole or in part: {reason}");
    }
}

/// Runs all cases, one after the other, and prints a line for each.
///
/// # Panics
///
/// At the first promise that the engine breaks.
pub fn run_all(harness: &dyn Harness) {
    for (name, _) in CASES {
        run_case(harness, name);
    }
}

/// One test for each case of the suite. The argument makes a `conformance::Harness`.
///
/// The list of cases is here and nowhere else.
#[macro_export]
macro_rules! conformance_tests {
    (@table [] $($module:ident { $($case:ident)* })*) => {
        &[$($((stringify!($case), $module::$case as $crate::conformance::Case),)*)*]
    };
    (@tests [$make:expr] $($module:ident { $($case:ident)* })*) => {
        $($(
            #[test]
            fn $case() {
                let harness = ($make)();
                $crate::conformance::run_case(&harness, stringify!($case));
            }
        )*)*
    };
    (@list $form:ident [$($make:expr)?]) => {
        $crate::conformance_tests! { @$form [$($make)?]
            own_writes {
                own_writes_in_every_combination
                own_writes_over_an_empty_store
                own_writes_in_long_transactions
                own_writes_are_what_commits
            }
            random {
                random_transactions_equal_the_model
            }
            order {
                keys_order_as_their_bytes
                values_come_back_as_they_went_in
                the_longest_key_works
                long_keys_leave_the_inline_form
            }
            paging {
                pages_show_each_entry_once
                pages_show_each_entry_once_over_own_writes
                pages_end_by_bytes
                pages_of_nothing
                pages_stay_on_their_snapshot
            }
            snapshots {
                a_snapshot_does_not_move
                nobody_sees_what_is_not_committed
                a_new_snapshot_sees_every_commit
                old_snapshots_live_side_by_side
            }
            conflicts {
                every_read_conflicts_with_every_write
                no_read_conflicts_with_a_neighbour
                snapshot_reads_never_conflict
                earlier_writes_do_not_conflict
                write_skew_conflicts
                write_skew_on_snapshot_reads_commits
                lost_updates_conflict
                a_conflict_writes_nothing
                read_only_never_conflicts
                blind_writes_never_conflict
                own_writes_do_not_count_as_reads
                a_pending_atomic_counts_when_read
            }
            phantoms {
                phantoms_conflict_everywhere_in_the_range
                limited_ranges_conflict_up_to_the_last_entry
                limited_reverse_ranges_conflict_down_to_the_last_entry
                limited_ranges_over_own_writes
                pages_conflict_as_far_as_they_were_read
                missing_keys_conflict_when_they_appear
                the_edges_of_a_range
            }
            explicit {
                read_conflicts_conflict_as_reads
                write_conflicts_conflict_as_writes
                write_conflicts_alone_commit
                read_conflicts_alone_never_conflict
                empty_conflict_ranges_do_nothing
            }
            atomics {
                atomics_on_absent_short_and_long_values
                atomics_follow_each_other
                compare_and_clear_removes_exactly
                atomics_take_the_value_at_commit
                atomics_never_conflict
            }
            limits {
                keys_up_to_the_bound
                values_up_to_the_bound
                transactions_up_to_their_bytes
                transactions_up_to_their_operations
                bad_keys_are_refused
                bad_ranges_are_refused
            }
            commits {
                versions_increase
                read_only_commits_at_its_snapshot
                both_durabilities_commit
                sync_answers
                sync_tells_those_who_do_not_wait
                blind_commits_of_one_key_end_in_version_order
                delete_range_over_many_then_some_again
                futures_can_move_between_threads
            }
            looking {
                newest_is_the_last_commit
                a_look_is_what_a_snapshot_shows
                a_look_at_a_version_that_is_over_conflicts
                commits_of_what_was_looked_at_conflict_by_their_reads
                who_commits_alone_conflicts_with_everybody
                who_commits_alone_and_is_alone_commits
                transactions_conflict_with_who_was_alone
                who_commits_alone_is_applied_in_order
                who_commits_alone_may_be_synced
                who_commits_alone_wakes_watchers
                who_commits_alone_is_seen_whole_by_many_threads
            }
            watches {
                a_watch_fires_on_every_kind_of_change
                a_watch_fires_on_a_change_since_the_snapshot
                a_watch_outlives_its_transaction
                a_watch_wakes_another_thread
                many_watches_all_fire
                dropped_watches_are_harmless
                waiting_for_a_counter_ends
            }
            transact {
                transact_commits_and_returns
                transact_retries_until_it_commits
                transact_is_bounded_by_attempts
                transact_is_bounded_by_the_deadline
                transact_does_not_retry_what_is_final
                transact_writes_nothing_when_the_body_fails
                transact_waits_by_the_injected_randomness
                transact_send_is_the_same_loop
            }
            unknown {
                unknown_but_committed_happens_once
                unknown_and_lost_is_tried_again
                unknown_stays_unknown_when_the_loop_gives_up
                unknown_and_then_a_final_error_is_unknown
                counting_through_unknown_outcomes_is_exact
            }
            resources {
                abandoned_transactions_free_what_they_held
                a_transaction_may_not_outlive_its_bound
                a_long_reader_sees_its_snapshot
            }
            threads {
                transfers_keep_the_total
                atomics_from_many_threads_add_up
                commits_are_seen_whole
                histories_are_strictly_serializable
                histories_with_faults_are_strictly_serializable
            }
        }
    };
    ($make:expr) => {
        $crate::conformance_tests! { @list tests [$make] }
    };
}
