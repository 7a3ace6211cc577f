//! Volumes: making and removing them, and their options.

use super::{Asker, Told, VolumeChange};
use crate::control::protocol::FormatRequest;
use crate::error::{CliError, Result, nearest};
use crate::opened::OpenStore;
use crate::units;
use base::exec::block_on;
use fs::blob::block::Codec;
use fs::{FormatOptions, Volume, VolumeChanges};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A volume's options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OptionsReport {
    /// The store.
    pub store: String,
    /// The volume.
    pub volume: String,
    /// What tells it from every other volume.
    pub uuid: String,
    /// When it was made, in UTC.
    pub created: String,
    /// Bytes that data may take; 0 for no bound.
    pub capacity: u64,
    /// Inodes that there may be; 0 for no bound.
    pub inodes: u64,
    /// How new blocks are compressed.
    pub codec: String,
    /// Bytes of a chunk.
    pub chunk: u32,
    /// Bytes of a block.
    pub block: u32,
    /// The largest file that is kept inline.
    pub inline: u32,
    /// Blocks in a parity group; 0 for no parity.
    pub parity: u8,
    /// It is mounted: what was changed counts from the next mount on.
    pub mounted: bool,
}

/// The words of codecs.
const CODECS: [(&str, Codec); 3] =
    [("none", Codec::None), ("lz4", Codec::Lz4), ("zstd", Codec::Zstd)];

/// A codec by its name.
pub fn parse_codec(word: &str) -> Result<Codec> {
    let found = CODECS.iter().find(|row| row.0 == word);
    found.map(|row| row.1).ok_or_else(|| {
        let near = match nearest(word, CODECS.iter().map(|row| row.0)) {
            Some(near) => format!("; is {near} meant?"),
            None => String::new(),
        };
        CliError::usage(format!("there is no codec \"{word}\": there are none, lz4 and zstd{near}"))
    })
}

/// The name of a codec.
fn codec_name(codec: Codec) -> &'static str {
    CODECS.iter().find(|row| row.1 == codec).map_or("unknown", |row| row.0)
}

/// What the core is told about a new volume.
pub fn format_options(asked: &FormatRequest) -> Result<FormatOptions> {
    let default = FormatOptions::default();
    Ok(FormatOptions {
        chunk_bytes: asked.chunk_bytes.unwrap_or(default.chunk_bytes),
        block_bytes: asked.block_bytes,
        inline_bytes_max: asked.inline_bytes_max,
        codec: asked.codec.as_deref().map_or(Ok(default.codec), parse_codec)?,
        parity_group: asked.parity_group.unwrap_or(default.parity_group),
        capacity_bytes: asked.capacity_bytes.unwrap_or(default.capacity_bytes),
        inodes_max: asked.inodes_max.unwrap_or(default.inodes_max),
        uid: asked.uid,
        gid: asked.gid,
        mode: asked.mode,
    })
}

/// Makes a volume.
pub(super) fn format(
    store: &Arc<OpenStore>,
    name: &str,
    asked: &FormatRequest,
    asker: &dyn Asker,
) -> Result<OptionsReport> {
    let options = format_options(asked)?;
    let about = |error: fs::Error| about(store, name, error);
    store.alone(name, "format", || {
        let names = block_on(Volume::list(store.world())).map_err(about)?;
        if names.iter().any(|known| known == name) {
            if !asked.replace {
                let words =
                    format!("{} has a volume \"{name}\" already", store.url().dir().display());
                return Err(CliError::in_use(words).hint(
                    "choose another name with --volume, or lose what is in it with --force",
                ));
            }
            block_on(Volume::destroy(store.world(), name, &Told(asker))).map_err(about)?;
        }
        block_on(Volume::format(store.world(), name, &options)).map_err(about)?;
        Ok(())
    })?;
    get(store, name)
}

/// Removes a volume.
pub(super) fn destroy(
    store: &Arc<OpenStore>,
    name: &str,
    asker: &dyn Asker,
) -> Result<VolumeChange> {
    let keys = store.alone(name, "destroy", || {
        block_on(Volume::destroy(store.world(), name, &Told(asker)))
            .map_err(|error| about(store, name, error))
    })?;
    Ok(VolumeChange {
        store: store.url().to_string(),
        volume: name.to_owned(),
        keys_removed: Some(keys),
    })
}

/// A volume's options.
pub(super) fn get(store: &Arc<OpenStore>, name: &str) -> Result<OptionsReport> {
    let volume = block_on(Volume::open(store.world(), name));
    let volume = volume.map_err(|error| about(store, name, error))?;
    Ok(report(store, &volume))
}

/// Changes a volume's options.
pub(super) fn set(
    store: &Arc<OpenStore>,
    name: &str,
    capacity_bytes: Option<u64>,
    inodes_max: Option<u64>,
    codec: Option<&str>,
) -> Result<OptionsReport> {
    let changes =
        VolumeChanges { capacity_bytes, inodes_max, codec: codec.map(parse_codec).transpose()? };
    let volume = block_on(Volume::set_options(store.world(), name, &changes));
    let volume = volume.map_err(|error| about(store, name, error))?;
    Ok(report(store, &volume))
}

fn report(store: &Arc<OpenStore>, volume: &Volume) -> OptionsReport {
    let record = volume.record();
    OptionsReport {
        store: store.url().to_string(),
        volume: volume.name().to_owned(),
        uuid: uuid(record.uuid),
        created: units::instant(record.created.secs, 0),
        capacity: record.capacity_bytes,
        inodes: record.inodes_max,
        codec: codec_name(record.codec).to_owned(),
        chunk: record.chunk_bytes,
        block: record.block_bytes,
        inline: record.inline_bytes_max,
        parity: record.parity_group,
        mounted: store.mount_of(volume.name()).is_some(),
    }
}

/// A uuid with its dashes.
pub(super) fn uuid(number: u128) -> String {
    let hex = format!("{number:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

/// An error about a volume.
pub(super) fn about(store: &Arc<OpenStore>, name: &str, error: fs::Error) -> CliError {
    let kind = error.kind();
    let place = store.url().dir().display();
    let made = CliError::from(error).about(format!("volume \"{name}\" of {place}"));
    match kind {
        fs::Kind::NotFound => {
            made.hint(format!("see which volumes there are with `seamount status {place}`"))
        }
        _ => made,
    }
}
