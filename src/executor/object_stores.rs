//! Object stores by URL, with credentials from the environment.

use std::sync::Arc;

use datafusion::common::Result as DfResult;
use datafusion::execution::object_store::{DefaultObjectStoreRegistry, ObjectStoreRegistry};
use object_store::ObjectStore;
use tokio::runtime::Handle;
use url::Url;

/// A registry that opens `s3://`, `gs://`, `az://` and `http(s)://` when a table first names them. Requests run on
/// the I/O runtime, so that a busy CPU thread does not let them time out.
#[derive(Debug)]
pub struct UrlObjectStores {
    known: DefaultObjectStoreRegistry,
    io: Handle,
}

impl UrlObjectStores {
    /// A registry whose stores send their requests on `io`.
    pub fn new(io: Handle) -> Self {
        Self { known: DefaultObjectStoreRegistry::new(), io }
    }
}

impl ObjectStoreRegistry for UrlObjectStores {
    fn register_store(&self, url: &Url, store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        self.known.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> DfResult<Arc<dyn ObjectStore>> {
        self.known.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> DfResult<Arc<dyn ObjectStore>> {
        match self.known.get_store(url) {
            Ok(store) => Ok(store),
            Err(unknown) => match open(url, &self.io)? {
                Some(store) => {
                    self.known.register_store(url, Arc::clone(&store));
                    Ok(store)
                }
                None => Err(unknown),
            },
        }
    }
}

#[cfg(feature = "object-stores")]
fn open(url: &Url, io: &Handle) -> DfResult<Option<Arc<dyn ObjectStore>>> {
    use object_store::ClientOptions;
    use object_store::aws::AmazonS3Builder;
    use object_store::azure::MicrosoftAzureBuilder;
    use object_store::client::SpawnedReqwestConnector;
    use object_store::gcp::GoogleCloudStorageBuilder;
    use object_store::http::HttpBuilder;

    let connector = SpawnedReqwestConnector::new(io.clone());
    let text = url.as_str();
    Ok(match url.scheme() {
        "s3" | "s3a" => {
            Some(Arc::new(AmazonS3Builder::from_env().with_url(text).with_http_connector(connector).build()?))
        }
        "gs" => {
            Some(Arc::new(GoogleCloudStorageBuilder::from_env().with_url(text).with_http_connector(connector).build()?))
        }
        "az" | "adl" | "abfs" | "abfss" => {
            Some(Arc::new(MicrosoftAzureBuilder::from_env().with_url(text).with_http_connector(connector).build()?))
        }
        "http" | "https" => {
            let root = &url[..url::Position::BeforePath];
            let options = ClientOptions::new().with_allow_http(true);
            Some(Arc::new(
                HttpBuilder::new()
                    .with_url(root)
                    .with_client_options(options)
                    .with_http_connector(connector)
                    .build()?,
            ))
        }
        _ => None,
    })
}

#[cfg(not(feature = "object-stores"))]
fn open(_url: &Url, _io: &Handle) -> DfResult<Option<Arc<dyn ObjectStore>>> {
    Ok(None)
}
