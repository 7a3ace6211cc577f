//! A bar with rate and time left, on a terminal only and only for work over a second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Work shorter than this shows nothing.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    Bytes,
    /// Files, keys and the like.
    Things,
}

/// Shows how far work has come, when somebody watches.
#[derive(Debug)]
pub struct Bar {
    title: &'static str,
    unit: Unit,
    begun: Instant,
    watched: bool,
    drawn: Mutex<Option<ProgressBar>>,
}

impl Bar {
    /// A bar that shows nothing yet, and never anything when nobody watches.
    pub fn new(title: &'static str, unit: Unit, quiet: bool) -> Self {
        let watched = !quiet && std::io::stderr().is_terminal();
        Self { title, unit, begun: Instant::now(), watched, drawn: Mutex::default() }
    }

    /// `done` of `total` are done.
    pub fn advance(&self, done: u64, total: Option<u64>) {
        if !self.watched || self.begun.elapsed() < SHOWN_AFTER {
            return;
        }
        let Ok(mut drawn) = self.drawn.lock() else { return };
        let bar = drawn.get_or_insert_with(|| self.draw(total));
        if let Some(total) = total {
            bar.set_length(total.max(done));
        }
        bar.set_position(done);
    }

    fn draw(&self, total: Option<u64>) -> ProgressBar {
        let template = match (self.unit, total.is_some()) {
            (Unit::Bytes, true) => {
                "{prefix} {wide_bar} {binary_bytes} of {binary_total_bytes}, {binary_bytes_per_sec}, {eta} left"
            }
            (Unit::Bytes, false) => {
                "{prefix} {spinner} {binary_bytes}, {binary_bytes_per_sec}, {elapsed}"
            }
            (Unit::Things, true) => {
                "{prefix} {wide_bar} {human_pos} of {human_len}, {per_sec}, {eta} left"
            }
            (Unit::Things, false) => "{prefix} {spinner} {human_pos}, {per_sec}, {elapsed}",
        };
        let bar = match total {
            Some(total) => ProgressBar::new(total),
            None => ProgressBar::new_spinner(),
        };
        bar.set_draw_target(ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(self.title);
        // The rate counts from the beginning, also when the bar comes late.
        bar.with_elapsed(self.begun.elapsed())
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Ok(mut drawn) = self.drawn.lock()
            && let Some(bar) = drawn.take()
        {
            bar.finish_and_clear();
        }
    }
}
