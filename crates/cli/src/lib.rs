//! The program `seamount`: words on a command line become calls of the core.
