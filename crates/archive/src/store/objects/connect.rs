//! From a URL and environment variables to a client of the store.

use std::error::Error;

use forebay_aio::named_enum;
use forebay_aio::sync::{Arc, Duration};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, Checksum};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::list::PaginatedListStore;
use object_store::path::Path;
use object_store::{BackoffConfig, ObjectStore, RetryConfig};

use super::timeout::ConnectorWithTimeout;

/// Environment variable: how long a request may make no progress, in seconds.
const TIMEOUT: &str = "FOREBAY_ARCHIVE_TIMEOUT";
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const MOST_TIMEOUT: f64 = 3600.0;
/// Environment variable: where Azure's machines ask for their credentials.
const IDENTITY_ENDPOINT: &str = "IDENTITY_ENDPOINT";

/// No attempt is begun after this multiple of the timeout.
pub(super) const TURNS: u32 = 2;
/// Limit of retries after a temporary failure.
const MOST_RETRIES: usize = 6;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The operations that a store must support.
pub(super) trait Objects: ObjectStore + PaginatedListStore {}

impl<T: ObjectStore + PaginatedListStore> Objects for T {}

named_enum! {
    /// The kinds of stores.
    Scheme {
        /// Amazon's S3, or what speaks like it.
        S3 = "s3",
        /// Google Cloud Storage.
        Google = "gs",
        /// Azure Blob Storage.
        Azure = "az",
    }
}

/// The store, the bucket and the prefix of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Location {
    scheme: Scheme,
    bucket: String,
    /// The prefix of all names: empty, or with a slash at the end.
    pub root: String,
}

impl Location {
    /// Parses a URL. The error is the reason why it is invalid.
    pub fn parse(url: &str) -> Result<Location, String> {
        let unknown = "archives lie in directories, or at s3://, gs:// or az://";
        let (scheme, rest) = url.split_once("://").ok_or(unknown)?;
        let scheme = Scheme::by_name(scheme).ok_or(unknown)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err("it names no bucket".to_owned());
        }
        let prefix = Path::parse(prefix).map_err(|error| error.to_string())?;
        let root = match prefix.as_ref() {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        Ok(Location { scheme, bucket: bucket.to_owned(), root })
    }

    /// The URL of a key.
    pub fn describe(&self, key: &str) -> String {
        let url = format!("{}://{}/{}{key}", self.scheme.name(), self.bucket, self.root);
        url.trim_end_matches('/').to_owned()
    }
}

/// How long a request may make no progress, by the environment variable.
pub(super) fn timeout(variables: &[(String, String)]) -> Result<Duration, String> {
    let Some((_, value)) =
        variables.iter().find(|(name, value)| name == TIMEOUT && !value.is_empty())
    else {
        return Ok(DEFAULT_TIMEOUT);
    };
    let seconds =
        value.parse().ok().filter(|seconds: &f64| *seconds > 0.0 && *seconds <= MOST_TIMEOUT);
    let seconds = seconds.ok_or_else(|| {
        format!("{TIMEOUT} is \"{value}\", not a number of seconds up to {MOST_TIMEOUT}")
    })?;
    Ok(Duration::from_secs_f64(seconds))
}

/// The client's settings, from variables that begin with `prefix`.
fn settings<K: std::str::FromStr>(
    variables: &[(String, String)],
    prefix: &str,
) -> impl Iterator<Item = (K, String)> {
    let known = move |(name, value): &(String, String)| {
        let key =
            name.starts_with(prefix).then(|| name.to_ascii_lowercase().parse::<K>().ok())??;
        Some((key, value.clone()))
    };
    variables.iter().filter_map(known)
}

/// Creates a client of the store. No request is made yet.
pub(super) fn connect(
    location: &Location,
    variables: &[(String, String)],
    timeout: Duration,
) -> Result<Arc<dyn Objects>, String> {
    let backoff =
        BackoffConfig { init_backoff: FIRST_PAUSE, max_backoff: LONGEST_PAUSE, base: 2.0 };
    let retry = RetryConfig { backoff, max_retries: MOST_RETRIES, retry_timeout: timeout * TURNS };
    let (bucket, connector) = (location.bucket.as_str(), ConnectorWithTimeout::new(timeout));
    let text = |error: object_store::Error| reason(&error);
    let store: Arc<dyn Objects> = match location.scheme {
        Scheme::S3 => {
            // The server compares the upload with this checksum before it stores it.
            let builder = AmazonS3Builder::new().with_checksum_algorithm(Checksum::SHA256);
            let builder = settings::<AmazonS3ConfigKey>(variables, "AWS_")
                .fold(builder, |builder, (key, value)| builder.with_config(key, value));
            let builder =
                builder.with_bucket_name(bucket).with_retry(retry).with_http_connector(connector);
            Arc::new(builder.build().map_err(text)?)
        }
        Scheme::Google => {
            let builder = settings::<GoogleConfigKey>(variables, "GOOGLE_")
                .fold(GoogleCloudStorageBuilder::new(), |builder, (key, value)| {
                    builder.with_config(key, value)
                });
            let builder =
                builder.with_bucket_name(bucket).with_retry(retry).with_http_connector(connector);
            Arc::new(builder.build().map_err(text)?)
        }
        Scheme::Azure => {
            let builder = settings::<AzureConfigKey>(variables, "AZURE_")
                .fold(MicrosoftAzureBuilder::new(), |builder, (key, value)| {
                    builder.with_config(key, value)
                });
            let builder = match variables.iter().find(|(name, _)| name == IDENTITY_ENDPOINT) {
                Some((_, endpoint)) => builder.with_msi_endpoint(endpoint),
                None => builder,
            };
            let builder = builder
                .with_container_name(bucket)
                .with_retry(retry)
                .with_http_connector(connector);
            Arc::new(builder.build().map_err(text)?)
        }
    };
    Ok(store)
}

/// The text of an error, and of those of its causes that it does not mention itself.
pub(super) fn reason(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let more = next.to_string();
        if !text.contains(&more) {
            text += &format!(": {more}");
        }
        cause = next.source();
    }
    text
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use object_store::ObjectStoreExt;

    use super::*;

    #[test]
    fn locations_are_parsed() {
        for (url, root, described) in [
            ("s3://bucket", "", "s3://bucket/x"),
            ("s3://bucket/", "", "s3://bucket/x"),
            ("gs://bucket/a/b", "a/b/", "gs://bucket/a/b/x"),
            ("az://container/a/b/", "a/b/", "az://container/a/b/x"),
        ] {
            let location = Location::parse(url).unwrap();
            assert_eq!(
                (location.root.as_str(), location.describe("x").as_str()),
                (root, described)
            );
            assert!(!location.describe("").ends_with('/'));
        }
        for url in
            ["s3://", "s3:///a", "ftp://host/a", "s3://bucket/a//b", "s3://bucket/../b", "/a"]
        {
            assert!(Location::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn the_timeout_is_a_number_of_seconds() {
        let given = |value: &str| timeout(&[(TIMEOUT.to_owned(), value.to_owned())]);
        assert_eq!(given("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(given(""), Ok(DEFAULT_TIMEOUT));
        for value in ["0", "-1", "NaN", "inf", "1e9", "soon"] {
            assert!(given(value).is_err(), "{value}");
        }
    }

    #[test]
    fn plain_http_is_refused_unless_asked_for() {
        let location = Location::parse("s3://bucket/a").unwrap();
        let variables = |allow: &str| {
            [
                ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
                ("AWS_ACCESS_KEY_ID", "a"),
                ("AWS_SECRET_ACCESS_KEY", "b"),
                ("AWS_ALLOW_HTTP", allow),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
        };
        let asked = |allow: &str| {
            let store = connect(&location, &variables(allow), Duration::from_millis(200)).unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_io()
                .enable_time()
                .build()
                .unwrap();
            let error = runtime.block_on(store.head(&Path::from("a")));
            reason(&error.unwrap_err())
        };
        // Plain HTTP is refused before any request; if allowed, nobody listens at that port.
        let (refused, unanswered) = (asked("false"), asked("true"));
        assert!(refused.contains("scheme"), "{refused}");
        assert!(unanswered.contains("refused"), "{unanswered}");
    }
}
