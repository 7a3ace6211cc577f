//! The kernel's protocol: its numbers, how requests are read and how replies are written.
//!
//! Version 7.45 of the protocol, and what older kernels down to 7.33 (Linux 5.13) send. All numbers are in the
//! byte order of the machine.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod numbers;
