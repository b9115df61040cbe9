//! A bucket behind a proxy.

use std::sync::Arc;

use forebay_archive::store::{Bucket, Repository, StoreOptions};
use forebay_testkit::moto;

use crate::proxy::Proxy;

/// A timeout in seconds that no request exceeds, however busy the machine is.
pub const LONG: &str = "60";
/// A timeout for tests in which all important requests fail.
pub const SHORT: &str = "0.1";

pub struct Store {
    pub proxy: Proxy,
    pub bucket: String,
    moto: u16,
}

impl Store {
    /// Creates a bucket. None, with a message, if there is no S3 server.
    pub fn new(test: &str) -> Option<Store> {
        let moto = moto::shared(test)?;
        let bucket = moto::make_bucket(moto);
        Some(Store { proxy: Proxy::new(moto), bucket, moto })
    }

    /// The bucket as a depot, with a client of its own.
    pub fn open(&self, url: &str, timeout: &str) -> Bucket {
        let endpoint = format!("http://127.0.0.1:{}", self.proxy.port);
        let variables = [
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", "test"),
            ("AWS_SECRET_ACCESS_KEY", "test"),
            ("AWS_REGION", "us-east-1"),
            ("FOREBAY_ARCHIVE_TIMEOUT", timeout),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Bucket::open(url, variables).expect("it opens")
    }

    pub fn url(&self) -> String {
        format!("s3://{}/some/where", self.bucket)
    }

    pub fn repository(&self, options: StoreOptions, timeout: &str) -> Repository {
        Repository::new(Arc::new(self.open(&self.url(), timeout)), options)
    }

    /// The archive with default options.
    pub fn plain(&self) -> Repository {
        self.repository(StoreOptions::default(), LONG)
    }

    /// Makes a request to the server, without the proxy.
    pub fn ask(&self, method: &str, path: &str, body: &[u8]) -> (u16, Vec<u8>) {
        moto::request(self.moto, method, &format!("/{}{path}", self.bucket), body)
    }

    /// All keys on the server.
    pub fn keys(&self) -> Vec<String> {
        let (status, body) = self.ask("GET", "?list-type=2", b"");
        assert_eq!(status, 200);
        let text = String::from_utf8(body).expect("it is text");
        let keys = text.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next());
        keys.map(str::to_owned).collect()
    }

    /// The number of unfinished uploads in parts.
    pub fn uploads(&self) -> usize {
        let (status, body) = self.ask("GET", "?uploads", b"");
        assert_eq!(status, 200);
        String::from_utf8_lossy(&body).matches("<UploadId>").count()
    }
}
