//! Makes an ordinary DataFusion `SessionContext` distributed.
