//! All integration tests in one binary: each further one would link DataFusion again, minutes on two cores.

mod cli;
mod cluster;
mod exchange_contract;
mod faults;
mod plans;
mod queries;
mod rooms;
mod support;
