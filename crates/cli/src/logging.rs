//! The log: to standard error, to the journal, or to a file; as text or as JSON.

use crate::config::{LogFormat, Settings};
use crate::error::{CliError, Result};
use std::fmt;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{Format, Full, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

/// Starts the log. Called once; `level` is the default.
pub fn start(settings: &Settings, level: Level) -> Result<()> {
    let level = settings.log_level.unwrap_or(level);
    let to = match &settings.log_file {
        Some(path) => Target::File(Arc::new(Mutex::new(open_log(path)?))),
        None => Target::Stderr,
    };
    let journal = matches!(to, Target::Stderr) && is_journal();
    let colours = matches!(to, Target::Stderr) && !journal && io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt().with_max_level(level).with_writer(to);
    // A second start in one process, as tests do, changes nothing.
    let _ = match (settings.log_format.unwrap_or_default(), journal) {
        (LogFormat::Json, _) => {
            tracing::subscriber::set_global_default(builder.json().flatten_event(true).finish())
        }
        (LogFormat::Text, true) => {
            let plain = Format::default().without_time().with_level(false).with_ansi(false);
            tracing::subscriber::set_global_default(
                builder.with_ansi(false).event_format(Journal(plain)).finish(),
            )
        }
        (LogFormat::Text, false) => {
            tracing::subscriber::set_global_default(builder.with_ansi(colours).finish())
        }
    };
    Ok(())
}

/// Opens a log to be written behind its end, readable by its owner alone.
pub fn open_log(path: &Path) -> Result<File> {
    std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| CliError::io(format!("cannot open the log {}", path.display()), &error))
}

/// Whether standard error is the journal: it says which stream it has made for us.
pub fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let Ok(file) = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stderr(), 0) else {
        return false;
    };
    match File::from(file).metadata() {
        Ok(meta) => stream == format!("{}:{}", meta.dev(), meta.ino()),
        Err(_) => false,
    }
}

/// Where lines go.
#[derive(Debug, Clone)]
enum Target {
    Stderr,
    File(Arc<Mutex<File>>),
}

impl<'a> MakeWriter<'a> for Target {
    type Writer = Target;

    fn make_writer(&'a self) -> Target {
        self.clone()
    }
}

impl Write for Target {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stderr => io::stderr().lock().write(line),
            Self::File(file) => match file.lock() {
                Ok(mut file) => file.write(line),
                // A log that cannot be written must not stop what is logged.
                Err(_) => Ok(line.len()),
            },
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lines as the journal wants them: the priority in front, no time.
struct Journal(Format<Full, ()>);

impl<S, N> FormatEvent<S, N> for Journal
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        write!(writer, "<{}>", priority(*event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}

/// The priority of syslog for a level.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}
