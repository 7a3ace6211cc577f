//! A volume as a mounted filesystem: decodes what the kernel asks, calls the core, encodes the answer.
