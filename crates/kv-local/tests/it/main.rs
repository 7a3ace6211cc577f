//! The embedded engine, tested from outside.

mod cuts;
mod faults;
mod life;
mod model;
mod rot;
mod store;
