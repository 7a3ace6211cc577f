//! Extended attributes, and access control lists, which are some of them.

use crate::access::{self, ACCESS_ACL, DEFAULT_ACL, READ, WRITE};
use crate::acl::{Acl, Invalid};
use crate::error::{
    Error, Kind, Result, access_denied, exists, invalid, not_permitted, unsupported,
};
use crate::schema::codec::{Writer, unseal};
use crate::schema::{Inode, Parsed, Part};
use crate::session::{OpKind, Session};
use crate::tx::Tx;
use crate::types::{Caller, FileType, Ino, NAME_BYTES_MAX, XATTR_BYTES_MAX, XattrMode, mode};
use bytes::Bytes;
use kv::{Key, Query, Read};

pub(super) const KIND: OpKind = OpKind::NeedsReplay;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Space {
    User,
    Trusted,
    Security,
    Acl,
}

fn space_of(name: &[u8]) -> Result<Space> {
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::new(Kind::Range, "the name of an attribute has at most 255 bytes"));
    }
    if name.contains(&0) || name.is_empty() {
        return Err(invalid("the name of an attribute has bytes, and none is zero"));
    }
    if name == ACCESS_ACL || name == DEFAULT_ACL {
        return Ok(Space::Acl);
    }
    for (prefix, space) in [
        (&b"user."[..], Space::User),
        (b"trusted.", Space::Trusted),
        (b"security.", Space::Security),
    ] {
        if let Some(rest) = name.strip_prefix(prefix) {
            if rest.is_empty() {
                return Err(invalid("the name of an attribute ends at its dot"));
            }
            return Ok(space);
        }
    }
    Err(unsupported("attributes begin with user., trusted., security. or system.posix_acl_"))
}

impl Session {
    /// The value of an extended attribute.
    pub async fn getxattr(&self, caller: &Caller, ino: Ino, name: &[u8]) -> Result<Bytes> {
        let space = space_of(name)?;
        self.view(|mut tx| async move {
            let inode = tx.inode_seen(ino).await?;
            check_read(&mut tx, caller, ino, &inode, space).await?;
            let key = tx.keys.xattr(ino, name);
            let value = load(&mut tx, &key, Read::Snapshot).await?.ok_or_else(missing)?;
            Ok((tx, value))
        })
        .await
    }

    /// The names of all extended attributes that the caller may see, in order.
    pub async fn listxattr(&self, caller: &Caller, ino: Ino) -> Result<Vec<Bytes>> {
        self.view(|mut tx| async move {
            let inode = tx.inode_seen(ino).await?;
            let mut names = Vec::new();
            let mut next = inode.xattrs.then(|| Query::new(tx.keys.xattrs(ino)));
            while let Some(query) = next {
                let page = tx.range(&query, Read::Snapshot).await?;
                for (key, _) in page.iter() {
                    if let Some(Parsed::Xattr { name, .. }) = tx.keys.parse(key)
                        && (caller.is_privileged() || !name.starts_with(b"trusted."))
                    {
                        names.push(Bytes::from(name));
                    }
                }
                next = if page.more { query.behind(&page) } else { None };
            }
            Ok((tx, names))
        })
        .await
    }

    /// Sets an extended attribute.
    pub async fn setxattr(
        &self,
        caller: &Caller,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        how: XattrMode,
    ) -> Result<()> {
        let space = space_of(name)?;
        if value.len() > XATTR_BYTES_MAX {
            return Err(Error::new(Kind::TooBig, "an attribute has at most 64 KiB"));
        }
        let bound = self.0.volume.world.store.capabilities().value_bytes_max;
        if value.len() + 64 > bound {
            return Err(Error::new(
                Kind::NoSpace,
                format!("the engine's values have at most {bound} bytes"),
            ));
        }
        let set = self.change(KIND, |mut tx| async move {
            let mut inode = tx.inode(ino).await?;
            check_write(&mut tx, caller, ino, &inode, space).await?;
            let key = tx.keys.xattr(ino, name);
            let there = tx.get(&key, Read::Serializable).await?.is_some();
            match how {
                XattrMode::Create if there => return Err(exists("the attribute is there")),
                XattrMode::Replace if !there => return Err(missing()),
                _ => {}
            }
            let mut parts = Vec::new();
            if space == Space::Acl {
                if name == DEFAULT_ACL && !inode.is_dir() {
                    return Err(access_denied("only a directory has a default list"));
                }
                set_acl(&mut tx, caller, ino, &mut inode, name, value)?;
                parts.push(Part::Access);
            } else {
                store(&mut tx, ino, name, value)?;
                inode.xattrs = true;
            }
            inode.ctime = tx.now;
            tx.put_inode(ino, &inode, &parts)?;
            Ok((tx, ()))
        });
        set.await?;
        if name == CAPABILITY {
            self.0.open.is_capable(ino);
        }
        Ok(())
    }

    /// Takes the capabilities of a program that somebody writes to.
    pub(crate) async fn drop_capabilities(&self, ino: Ino) -> Result<()> {
        match self.removexattr(&Caller::root(), ino, CAPABILITY).await {
            Err(error) if error.kind() == Kind::NoAttribute => Ok(()),
            done => done,
        }
    }

    /// Removes an extended attribute.
    pub async fn removexattr(&self, caller: &Caller, ino: Ino, name: &[u8]) -> Result<()> {
        let space = space_of(name)?;
        self.change(KIND, |mut tx| async move {
            let mut inode = tx.inode(ino).await?;
            check_write(&mut tx, caller, ino, &inode, space).await?;
            let key = tx.keys.xattr(ino, name);
            if tx.get(&key, Read::Serializable).await?.is_none() {
                // A list that is not there is removed already, as Linux has it.
                return if space == Space::Acl { Ok((tx, ())) } else { Err(missing()) };
            }
            tx.frees_space();
            tx.delete(&key)?;
            let mut parts = Vec::new();
            if space == Space::Acl {
                if name == ACCESS_ACL {
                    inode.access_acl = false;
                } else {
                    inode.default_acl = false;
                }
                parts.push(Part::Access);
            }
            inode.ctime = tx.now;
            tx.put_inode(ino, &inode, &parts)?;
            Ok((tx, ()))
        })
        .await
    }
}

fn missing() -> Error {
    Error::new(Kind::NoAttribute, "there is no such attribute")
}

const VERSION: u8 = 1;
/// What a program may do that its user may not. Writing to it takes that away.
const CAPABILITY: &[u8] = b"security.capability";

/// The value of an attribute's record.
pub(crate) async fn load(tx: &mut Tx, key: &Key, read: Read) -> Result<Option<Bytes>> {
    let Some(record) = tx.get(key, read).await? else {
        return Ok(None);
    };
    match decode(key, &record) {
        Some(value) => Ok(Some(value)),
        None => Err(tx.damaged(key, "is damaged")),
    }
}

pub(crate) fn decode(key: &[u8], record: &[u8]) -> Option<Bytes> {
    let mut from = unseal(key, record)?;
    if from.byte()? != VERSION {
        return None;
    }
    Some(Bytes::copy_from_slice(from.0))
}

/// Writes an attribute; the caller writes the inode.
pub(crate) fn store(tx: &mut Tx, ino: Ino, name: &[u8], value: &[u8]) -> Result<()> {
    let key = tx.keys.xattr(ino, name);
    tx.put(&key, encode(&key, value))
}

pub(crate) fn encode(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut out = Writer::with_capacity(value.len() + 8);
    out.byte(VERSION).raw(value);
    out.seal(key)
}

async fn check_read(
    tx: &mut Tx,
    caller: &Caller,
    ino: Ino,
    inode: &Inode,
    space: Space,
) -> Result<()> {
    match space {
        Space::User if !inode.is_file() && !inode.is_dir() => Err(missing()),
        Space::User => access::check(tx, caller, ino, inode, READ).await,
        Space::Trusted if caller.checked_here && !caller.is_privileged() => Err(missing()),
        Space::Acl if inode.file_type() == FileType::Symlink => {
            Err(unsupported("a symbolic link has no access control list"))
        }
        Space::Trusted | Space::Security | Space::Acl => Ok(()),
    }
}

async fn check_write(
    tx: &mut Tx,
    caller: &Caller,
    ino: Ino,
    inode: &Inode,
    space: Space,
) -> Result<()> {
    match space {
        Space::User => {
            if !inode.is_file() && !inode.is_dir() {
                return Err(not_permitted("only files and directories have user attributes"));
            }
            if inode.is_dir() && inode.mode & mode::STICKY != 0 {
                access::check_owner(caller, inode)?;
            }
            access::check(tx, caller, ino, inode, WRITE).await
        }
        Space::Trusted | Space::Security => access::check_privileged(caller),
        Space::Acl => {
            if inode.file_type() == FileType::Symlink {
                return Err(unsupported("a symbolic link has no access control list"));
            }
            access::check_owner(caller, inode)
        }
    }
}

fn set_acl(
    tx: &mut Tx,
    caller: &Caller,
    ino: Ino,
    inode: &mut Inode,
    name: &[u8],
    value: &[u8],
) -> Result<()> {
    let list = Acl::parse(value).map_err(|error| match error {
        Invalid::Version(_) => unsupported("an access control list of another version"),
        other => invalid(other.to_string()),
    })?;
    let key = tx.keys.xattr(ino, name);
    if name == DEFAULT_ACL {
        inode.default_acl = list.is_some();
    } else {
        if let Some(list) = &list {
            inode.mode = inode.mode & !0o777 | list.to_mode(inode.mode) & 0o777;
            let member = caller.is_privileged() || caller.is_in_group(inode.gid);
            if caller.checked_here && !member {
                inode.mode &= !mode::SETGID;
            }
        }
        // A list that says no more than the mode is the mode.
        inode.access_acl = list.as_ref().is_some_and(|list| !list.is_minimal());
    }
    let kept = if name == DEFAULT_ACL { inode.default_acl } else { inode.access_acl };
    match list {
        Some(list) if kept => {
            inode.xattrs = true;
            store(tx, ino, name, &list.encode())
        }
        _ => tx.delete(&key),
    }
}
