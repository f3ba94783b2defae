//! The extension traits on DataFusion's builder and context.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::physical_plan::PhysicalExtensionCodec;

use super::cluster::Cluster;
use super::planner::VolleyPlanner;
use crate::config::VolleyOptions;
use crate::error::{ErrorCode, Result, VolleyError};

/// Makes the session that is being built distributed.
pub trait SessionStateBuilderExt: Sized {
    /// Runs the session's queries on `cluster`. The order of calls does not matter: a query planner that was set stays,
    /// inside ours; one that is set later replaces it, and [`SessionContextExt::volley`] says so.
    #[must_use]
    fn with_volley(self, cluster: &Cluster) -> Self;

    /// Encodes the user's own plan nodes and functions for executors, which need the same codec.
    #[must_use]
    fn with_volley_codec(self, codec: Arc<dyn PhysicalExtensionCodec>) -> Self;
}

/// The user's codec, as an opaque extension of the session's configuration.
#[derive(Debug)]
pub(super) struct UserCodec(pub(super) Arc<dyn PhysicalExtensionCodec>);

/// What a distributed session knows of itself.
#[derive(Clone, Debug)]
pub struct VolleySession {
    cluster: Cluster,
}

impl VolleySession {
    /// The cluster.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }
}

impl SessionStateBuilderExt for SessionStateBuilder {
    fn with_volley(mut self, cluster: &Cluster) -> Self {
        let previous = self.query_planner().take();
        let mut config = self.config().take().unwrap_or_default();
        // A session that did not say how wide it wants to be is as wide as its cluster.
        if config.target_partitions() == SessionConfig::default().target_partitions() {
            config = config.with_target_partitions(cluster.slots().max(2));
        }
        if config.options().extensions.get::<VolleyOptions>().is_none() {
            config = config.with_option_extension(VolleyOptions::default());
        }
        let config = config.with_extension(Arc::new(VolleySession { cluster: cluster.clone() }));
        self.with_config(config).with_query_planner(Arc::new(VolleyPlanner::new(previous, cluster.clone())))
    }

    fn with_volley_codec(mut self, codec: Arc<dyn PhysicalExtensionCodec>) -> Self {
        let config = self.config().take().unwrap_or_default().with_extension(Arc::new(UserCodec(codec)));
        self.with_config(config)
    }
}

/// Asks a session about its cluster.
pub trait SessionContextExt {
    /// The session's cluster.
    ///
    /// # Errors
    /// Why the session is not distributed.
    fn volley(&self) -> Result<VolleySession>;
}

impl SessionContextExt for SessionContext {
    fn volley(&self) -> Result<VolleySession> {
        let state = self.state();
        let not =
            |why: &str| VolleyError::new(ErrorCode::InvalidOption, format!("this session is not distributed: {why}"));
        let session = state
            .config()
            .get_extension::<VolleySession>()
            .ok_or_else(|| not("it was built without with_volley(&cluster)"))?;
        if !format!("{:?}", state.query_planner()).contains(VolleyPlanner::NAME) {
            return Err(not("a query planner that was set after with_volley(&cluster) replaced ours; set it before"));
        }
        Ok(session.as_ref().clone())
    }
}
