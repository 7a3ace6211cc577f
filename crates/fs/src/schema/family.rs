//! The families of keys: one byte each.

macro_rules! families {
    ($($name:ident $byte:literal $what:literal;)*) => {
        /// A family of keys.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Family {
            $(#[doc = $what] $name,)*
        }

        impl Family {
            /// All of them.
            pub const ALL: &[Family] = &[$(Family::$name,)*];

            /// Its byte in keys.
            #[inline]
            pub const fn byte(self) -> u8 {
                match self { $(Family::$name => $byte,)* }
            }

            /// What it holds, in the words of docs/format.md.
            pub fn what(self) -> &'static str {
                match self { $(Family::$name => $what,)* }
            }

            /// From its byte.
            pub fn of_byte(byte: u8) -> Option<Self> {
                Self::ALL.iter().copied().find(|family| family.byte() == byte)
            }
        }
    };
}

families! {
    VolumeName b'V' "volume name";
    Volume b'M' "volume";
    Counter b's' "counter";
    Inode b'i' "inode";
    Entry b'd' "directory entry";
    Inline b'b' "inline bytes";
    Backing b'w' "backing file";
    Map b'f' "map entry";
    Block b'c' "block";
    Garbage b'g' "garbage";
    Session b'p' "session";
    Held b'l' "held";
    Op b'o' "operation";
    Job b'j' "job";
}
