//! `seamount bench`: data and metadata workloads run in several directories side by side, interleaved,
//! with what they wrote read back and compared.

mod caches;
mod chart;
mod error;
mod names;
mod options;
mod pages;
mod pin;
mod plot;
mod report;
mod run;
mod samples;
mod scene;
mod scratch;
mod stage;
mod stop;
mod table;
mod target;
#[cfg(test)]
mod tests;
mod work;

pub use chart::chart;
pub use error::{Error, Trouble};
pub use options::Options;
pub use pin::{allowed_cpus, rerun_on_one_cpu};
pub use plot::{Line, Plot, plot};
pub use report::{Report, Row, Settings, Skipped, TargetInfo, Value};
pub use run::{Progress, run};
pub use stop::Stop;
pub use table::table;
pub use work::names as workload_names;
