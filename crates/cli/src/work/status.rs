//! What a store is: its volumes, their usage and sessions, and what is mounted; and the counts of mounts.

use super::options::{about, uuid};
use crate::error::Result;
use crate::opened::{Mounted, OpenStore};
use crate::units;
use base::exec::block_on;
use fs::Volume;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusReport {
    /// Its URL.
    pub store: String,
    /// The version of the program that has it open.
    pub version: String,
    /// The process that has it open, when that is a daemon.
    pub daemon_pid: Option<u32>,
    /// The engine.
    pub engine: EngineReport,
    /// Its volumes.
    pub volumes: Vec<VolumeReport>,
}

/// What the engine is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EngineReport {
    /// Its name.
    pub name: String,
    /// The newest version of the data.
    pub version: u64,
    /// The newest that survives a loss of power.
    pub synced: u64,
    /// Tables on disk.
    pub tables: u64,
    /// Their bytes.
    pub table_bytes: u64,
    /// Bytes in the current log.
    pub log_bytes: u64,
    /// Bytes in memory that are not in tables.
    pub overlay_bytes: u64,
}

/// A volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeReport {
    /// Its name.
    pub name: String,
    /// What tells it from every other.
    pub uuid: String,
    /// Bytes that its data takes.
    pub used_bytes: u64,
    /// Bytes that it may take; 0 for no bound.
    pub capacity_bytes: u64,
    /// Its inodes.
    pub inodes: u64,
    /// Those that there may be; 0 for no bound.
    pub inodes_max: u64,
    /// Its sessions.
    pub sessions: Vec<SessionReport>,
    /// Where it is mounted.
    pub mount: Option<MountReport>,
    /// Why nothing else is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// A session of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionReport {
    /// Its number.
    pub session: u64,
    /// The machine.
    pub host: String,
    /// The process.
    pub pid: u32,
    /// When it began, in UTC.
    pub started: String,
    /// Heartbeats so far.
    pub beats: u64,
    /// It is the one that tells.
    pub own: bool,
}

/// A mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountReport {
    /// Where.
    pub mountpoint: String,
    /// When it was mounted, in UTC.
    pub since: String,
    /// Nothing can be changed.
    pub read_only: bool,
    /// When its daemon dies another one takes it over.
    #[serde(default)]
    pub supervised: bool,
    /// By what requests come: `device` or `uring`.
    #[serde(default)]
    pub transport: String,
    /// How bytes get from the store to programs.
    pub data_path: String,
    /// Requests that were answered.
    pub requests: u64,
    /// Those that are under way.
    pub requests_in_flight: u64,
    /// Files and directories that are open.
    pub open_handles: u64,
    /// Damaged blocks that parity repaired.
    pub repaired_blocks: u64,
}

/// The store's volumes and all that is known of them.
pub(super) fn status(store: &Arc<OpenStore>) -> Result<StatusReport> {
    let names = block_on(Volume::list(store.world()))?;
    let stats = store.engine_stats();
    let is_daemon = !store.mounts().is_empty();
    Ok(StatusReport {
        store: store.url().to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        daemon_pid: is_daemon.then(std::process::id),
        engine: EngineReport {
            name: store.engine_name().to_owned(),
            version: stats.version,
            synced: stats.synced,
            tables: stats.tables,
            table_bytes: stats.table_bytes,
            log_bytes: stats.log_bytes,
            overlay_bytes: stats.overlay_bytes,
        },
        volumes: names.iter().map(|name| volume(store, name)).collect(),
    })
}

fn volume(store: &Arc<OpenStore>, name: &str) -> VolumeReport {
    let mount = store.mount_of(name).map(|mounted| mount_report(&mounted));
    let known = || -> Result<VolumeReport> {
        let used = store.use_volume(name)?;
        let session = used.session();
        let failed = |error| about(store, name, error);
        let (used_bytes, inodes) = block_on(session.usage()).map_err(failed)?;
        let sessions = match &mount {
            // The one session there is was made to look, and is gone when this is read.
            None => Vec::new(),
            Some(_) => block_on(session.sessions()).map_err(failed)?,
        };
        let record = session.volume().record();
        Ok(VolumeReport {
            name: name.to_owned(),
            uuid: uuid(record.uuid),
            used_bytes,
            capacity_bytes: record.capacity_bytes,
            inodes,
            inodes_max: record.inodes_max,
            sessions: sessions
                .into_iter()
                .map(|info| SessionReport {
                    session: info.session,
                    host: info.host,
                    pid: info.pid,
                    started: units::instant(info.started.secs, 0),
                    beats: info.beats,
                    own: info.own,
                })
                .collect(),
            mount: mount.clone(),
            trouble: None,
        })
    };
    known().unwrap_or_else(|error| VolumeReport {
        name: name.to_owned(),
        uuid: String::new(),
        used_bytes: 0,
        capacity_bytes: 0,
        inodes: 0,
        inodes_max: 0,
        sessions: Vec::new(),
        mount: mount.clone(),
        trouble: Some(error.message),
    })
}

fn mount_report(mounted: &Mounted) -> MountReport {
    let counts = mounted.session.counts();
    MountReport {
        mountpoint: crate::output::shown(mounted.mount.mountpoint().as_os_str().as_encoded_bytes()),
        since: units::instant(mounted.since, 0),
        supervised: mounted.supervised,
        read_only: mounted.mount.options().read_only,
        data_path: match mounted.mount.is_by_kernel() {
            true => "files served by the kernel",
            false => "served by the daemon",
        }
        .to_owned(),
        transport: mounted.mount.transport().to_string(),
        requests: mounted.mount.stats().iter().map(|op| op.count).sum(),
        requests_in_flight: mounted.mount.requests_in_flight(),
        open_handles: counts.open_handles,
        repaired_blocks: counts.repaired_blocks,
    }
}

/// Counts and latencies of every mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatsReport {
    /// The store's URL.
    pub store: String,
    /// For each mounted volume.
    pub volumes: Vec<VolumeStats>,
}

/// Counts and latencies of one mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeStats {
    /// The volume.
    pub volume: String,
    /// Where it is mounted.
    pub mountpoint: String,
    /// Requests that are under way.
    pub requests_in_flight: u64,
    /// For each kind of request that was seen.
    pub operations: Vec<OpReport>,
}

/// One kind of request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpReport {
    /// Its name.
    pub name: String,
    /// How many were answered.
    pub count: u64,
    /// How many of these with an error.
    pub errors: u64,
    /// Bytes that were read or written.
    pub bytes: u64,
    /// The time that all took.
    pub total_ns: u64,
    /// The longest.
    pub max_ns: u64,
    /// How many took less than `2^n` microseconds and not less than half of that.
    pub buckets: Vec<u64>,
}

/// The counts of every mount.
pub(super) fn stats(store: &Arc<OpenStore>) -> StatsReport {
    let volumes = store.mounts().into_iter().map(|(volume, mounted)| VolumeStats {
        volume,
        mountpoint: crate::output::shown(mounted.mount.mountpoint().as_os_str().as_encoded_bytes()),
        requests_in_flight: mounted.mount.requests_in_flight(),
        operations: mounted
            .mount
            .stats()
            .into_iter()
            .filter(|op| op.count > 0)
            .map(|op| OpReport {
                name: op.name.to_owned(),
                count: op.count,
                errors: op.errors,
                bytes: op.bytes,
                total_ns: op.total_ns,
                max_ns: op.max_ns,
                buckets: op.buckets.to_vec(),
            })
            .collect(),
    });
    StatsReport { store: store.url().to_string(), volumes: volumes.collect() }
}
