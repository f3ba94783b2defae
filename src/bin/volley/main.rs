//! The `volley` command.
fn main() {}
