//! The sessions of a volume.

use crate::error::Result;
use crate::schema::{Parsed, SessionRecord};
use crate::session::Session;
use crate::tx::number;
use crate::types::Time;
use kv::{Query, Read};
use std::collections::BTreeMap;

/// A session that has a record in the store: one that lives, or has died and was not yet ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionInfo {
    /// Its number.
    pub session: u64,
    /// The machine that it said it is on.
    pub host: String,
    /// Its process there.
    pub pid: u32,
    /// The version of its program.
    pub version: String,
    /// When it began, by its own clock.
    pub started: Time,
    /// Its heartbeat: one that moves is that of a living session.
    pub beats: u64,
    /// Whether it is the session that was asked.
    pub own: bool,
}

impl Session {
    /// The sessions of the volume, by number. One whose record is damaged has nothing but its number.
    pub async fn sessions(&self) -> Result<Vec<SessionInfo>> {
        let own = self.id();
        self.view(|mut tx| async move {
            let mut found: BTreeMap<u64, SessionInfo> = BTreeMap::new();
            let mut next = Some(Query::new(tx.keys.sessions()));
            while let Some(query) = next {
                let page = tx.range(&query, Read::Snapshot).await?;
                for (key, value) in page.iter() {
                    let (session, record) = match tx.keys.parse(key) {
                        Some(Parsed::Session { session }) => {
                            (session, SessionRecord::decode(key, value))
                        }
                        Some(Parsed::Heartbeat { session }) => {
                            found.entry(session).or_default().beats = number(value);
                            (session, None)
                        }
                        _ => continue,
                    };
                    let info = found.entry(session).or_default();
                    (info.session, info.own) = (session, session == own);
                    if let Some(record) = record {
                        (info.host, info.pid) = (record.host, record.pid);
                        (info.version, info.started) = (record.version, record.started);
                    }
                }
                next = if page.more { query.behind(&page) } else { None };
            }
            Ok((tx, found.into_values().collect()))
        })
        .await
    }
}
