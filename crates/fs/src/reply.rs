//! Replies of operations, as the op log keeps them.

use crate::schema::Form;
use crate::schema::codec::{Reader, Writer, unseal};
use crate::types::{Attr, Time};

const VERSION: u8 = 1;
/// That of a record which also says for which request the reply is.
const VERSION_ASKED: u8 = 2;

/// What an operation answers.
pub(crate) trait Reply: Sized {
    fn write(&self, out: &mut Writer);
    fn read(from: &mut Reader<'_>) -> Option<Self>;
}

pub(crate) fn encode<T: Reply>(key: &[u8], value: &T) -> Vec<u8> {
    let mut out = Writer::default();
    out.byte(VERSION);
    value.write(&mut out);
    out.seal(key)
}

pub(crate) fn decode<T: Reply>(key: &[u8], record: &[u8]) -> Option<T> {
    let mut from = unseal(key, record)?;
    if from.byte()? != VERSION {
        return None;
    }
    let value = T::read(&mut from)?;
    from.end()?;
    Some(value)
}

pub(crate) fn decode_bare<T: Reply>(bare: &[u8]) -> Option<T> {
    let mut from = Reader(bare);
    let value = T::read(&mut from)?;
    from.end()?;
    Some(value)
}

/// Room for the attributes of a file, which is what most replies are.
const REPLY_BYTES: usize = 128;

/// A reply with the number of its request.
pub(crate) fn encode_for<T: Reply>(key: &[u8], number: u64, value: &T) -> Vec<u8> {
    let mut out = Writer::with_capacity(REPLY_BYTES);
    out.byte(VERSION_ASKED).number(number);
    value.write(&mut out);
    out.seal(key)
}

/// The same of a reply that is encoded already.
pub(crate) fn encode_asked(key: &[u8], number: u64, bare: &[u8]) -> Vec<u8> {
    let mut out = Writer::default();
    out.byte(VERSION_ASKED).number(number).raw(bare);
    out.seal(key)
}

pub(crate) fn decode_asked<'a>(key: &[u8], record: &'a [u8]) -> Option<(u64, &'a [u8])> {
    let mut from = unseal(key, record)?;
    if from.byte()? != VERSION_ASKED {
        return None;
    }
    Some((from.number()?, from.0))
}

impl Reply for () {
    fn write(&self, _: &mut Writer) {}

    fn read(_: &mut Reader<'_>) -> Option<Self> {
        Some(())
    }
}

impl Reply for u64 {
    fn write(&self, out: &mut Writer) {
        out.number(*self);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        from.number()
    }
}

impl Reply for bool {
    fn write(&self, out: &mut Writer) {
        out.byte(u8::from(*self));
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        match from.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

impl<A: Reply, B: Reply> Reply for (A, B) {
    fn write(&self, out: &mut Writer) {
        self.0.write(out);
        self.1.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some((A::read(from)?, B::read(from)?))
    }
}

impl<T: Reply> Reply for Option<T> {
    fn write(&self, out: &mut Writer) {
        out.byte(u8::from(self.is_some()));
        if let Some(value) = self {
            value.write(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            0 => None,
            1 => Some(T::read(from)?),
            _ => return None,
        })
    }
}

impl Reply for Form {
    fn write(&self, out: &mut Writer) {
        out.byte(match self {
            Form::Inline => 0,
            Form::Mapped => 1,
            Form::Local => 2,
        });
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(match from.byte()? {
            0 => Form::Inline,
            1 => Form::Mapped,
            2 => Form::Local,
            _ => return None,
        })
    }
}

impl Reply for Time {
    fn write(&self, out: &mut Writer) {
        out.raw(&self.secs.to_le_bytes()).number(self.nanos.into());
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        let (secs, nanos) = (i64::from_le_bytes(from.array()?), from.number_u32()?);
        (nanos < 1_000_000_000).then_some(Time { secs, nanos })
    }
}

impl Reply for Attr {
    fn write(&self, out: &mut Writer) {
        out.number(self.ino).number(self.size).number(self.blocks);
        for field in [self.mode, self.nlink, self.uid, self.gid, self.rdev, self.block_bytes] {
            out.number(field.into());
        }
        for time in [self.atime, self.mtime, self.ctime, self.btime] {
            time.write(out);
        }
    }

    fn read(from: &mut Reader<'_>) -> Option<Self> {
        Some(Attr {
            ino: from.number()?,
            size: from.number()?,
            blocks: from.number()?,
            mode: from.number_u32()?,
            nlink: from.number_u32()?,
            uid: from.number_u32()?,
            gid: from.number_u32()?,
            rdev: from.number_u32()?,
            block_bytes: from.number_u32()?,
            atime: Time::read(from)?,
            mtime: Time::read(from)?,
            ctime: Time::read(from)?,
            btime: Time::read(from)?,
            live: false,
        })
    }
}
