//! An HTTP client that ends requests without progress, and rejects invalid lists.
//!
//! The client's own timeout is for a whole request with all its bytes, which suits neither 100
//! bytes nor a gigabyte. Here an answer must begin within a time that grows with the length of the
//! request, and then make progress.
//!
//! An invalid list would read as an empty one, and every object would seem to be absent. So each
//! list is checked. A store that answers an error with the status of a success is retried.

use std::pin::Pin;
use std::task::{Context, Poll};

use async_trait::async_trait;
use forebay_aio::sync::Duration;
use http_body::{Body, Frame, SizeHint};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService, ReqwestConnector,
};
use tokio::time::{self, Instant, Sleep};

/// A request gets the timeout once more for each of these many bytes.
const STEP: f64 = (16 << 20) as f64;

/// The parameter of a query for a list, and the root element of its answer: of S3 and Google, and
/// of Azure.
const LISTS: [(&str, &[u8]); 2] =
    [("list-type=2", b"ListBucketResult"), ("comp=list", b"EnumerationResults")];

/// Creates the clients.
#[derive(Debug)]
pub(super) struct ConnectorWithTimeout {
    timeout: Duration,
}

impl ConnectorWithTimeout {
    pub fn new(timeout: Duration) -> ConnectorWithTimeout {
        ConnectorWithTimeout { timeout }
    }
}

impl HttpConnector for ConnectorWithTimeout {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client =
            ReqwestConnector::default().connect(&options.clone().with_timeout_disabled())?;
        Ok(HttpClient::new(Service { client, timeout: self.timeout }))
    }
}

#[derive(Debug)]
struct Service {
    client: HttpClient,
    timeout: Duration,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let query = request.uri().query().unwrap_or_default();
        let list = LISTS.iter().find(|(asked, _)| query.split('&').any(|word| word == *asked));
        let sent = request.body().content_length() as f64;
        let limit = self.timeout.mul_f64(1.0 + sent / STEP);
        let answer = time::timeout(limit, self.client.execute(request)).await;
        let (parts, body) = answer.map_err(|_| stalled(limit))??.into_parts();
        let body = HttpResponseBody::new(TimedBody::new(body, self.timeout));
        match list {
            Some((_, named)) if parts.status.is_success() => {
                let bytes = body.bytes().await?;
                if !bytes.windows(named.len()).any(|word| word == *named) {
                    return Err(not_a_list(&bytes));
                }
                Ok(HttpResponse::from_parts(parts, bytes.into()))
            }
            _ => Ok(HttpResponse::from_parts(parts, body)),
        }
    }
}

/// Why an answer is rejected.
#[derive(Debug, thiserror::Error)]
enum Rejected {
    #[error("no progress for {0:?}")]
    Stalled(Duration),
    #[error("asked for a list, the store answers with success and \"{0}\"")]
    NotAList(String),
}

fn stalled(time: Duration) -> HttpError {
    HttpError::new(HttpErrorKind::Timeout, Rejected::Stalled(time))
}

fn not_a_list(bytes: &[u8]) -> HttpError {
    let begin: String = String::from_utf8_lossy(bytes).chars().take(300).collect();
    HttpError::new(HttpErrorKind::Interrupted, Rejected::NotAList(begin))
}

/// The body of an answer. Each part must arrive within the timeout after it is requested.
struct TimedBody {
    body: HttpResponseBody,
    timeout: Duration,
    timer: Pin<Box<Sleep>>,
    /// The timer runs.
    waiting: bool,
}

impl TimedBody {
    fn new(body: HttpResponseBody, timeout: Duration) -> TimedBody {
        TimedBody { body, timeout, timer: Box::pin(time::sleep(timeout)), waiting: false }
    }
}

impl Body for TimedBody {
    type Data = <HttpResponseBody as Body>::Data;
    type Error = HttpError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, HttpError>>> {
        let this = self.get_mut();
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(cx) {
            this.waiting = false;
            return Poll::Ready(frame);
        }
        if !this.waiting {
            this.waiting = true;
            this.timer.as_mut().reset(Instant::now() + this.timeout);
        }
        this.timer.as_mut().poll(cx).map(|()| Some(Err(stalled(this.timeout))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
