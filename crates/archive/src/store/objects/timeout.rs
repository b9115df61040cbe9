//! Requests that make no progress end; answers that are none are noticed.
//!
//! The client's own time-out is one for a whole request with all its bytes, which suits neither 100
//! bytes nor a gigabyte. Here an answer must begin within a time that grows with what was sent, and
//! then go on.
//!
//! A list that is no list would read as an empty one, and what it does not name would be absent: so
//! each is looked at. An error in a success's clothes is one that may pass.

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
use tokio::time::{Instant, Sleep, sleep, timeout};

/// Bytes for which a request gets its time once more.
const STEP: f64 = (16 << 20) as f64;

/// Words of a query that asks for a list, and of the answer to it: S3 and Google, Azure.
const LISTS: [(&str, &[u8]); 2] =
    [("list-type=2", b"ListBucketResult"), ("comp=list", b"EnumerationResults")];

/// Makes clients that are patient up to a point.
#[derive(Debug)]
pub(super) struct Patient {
    patience: Duration,
}

impl Patient {
    pub fn new(patience: Duration) -> Patient {
        Patient { patience }
    }
}

impl HttpConnector for Patient {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client =
            ReqwestConnector::default().connect(&options.clone().with_timeout_disabled())?;
        Ok(HttpClient::new(Service { client, patience: self.patience }))
    }
}

#[derive(Debug)]
struct Service {
    client: HttpClient,
    patience: Duration,
}

#[async_trait]
impl HttpService for Service {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let query = request.uri().query().unwrap_or_default();
        let list = LISTS.iter().find(|(asked, _)| query.split('&').any(|word| word == *asked));
        let sent = request.body().content_length() as f64;
        let limit = self.patience.mul_f64(1.0 + sent / STEP);
        let answer = timeout(limit, self.client.execute(request)).await;
        let (parts, body) = answer.map_err(|_| stalled(limit))??.into_parts();
        let body = HttpResponseBody::new(Watched::new(body, self.patience));
        match list {
            Some((_, named)) if parts.status.is_success() => {
                let bytes = body.bytes().await?;
                if !bytes.windows(named.len()).any(|word| word == *named) {
                    return Err(no_list(&bytes));
                }
                Ok(HttpResponse::from_parts(parts, bytes.into()))
            }
            _ => Ok(HttpResponse::from_parts(parts, body)),
        }
    }
}

/// Why an answer does not count.
#[derive(Debug, thiserror::Error)]
enum NoAnswer {
    #[error("no progress for {0:?}")]
    Stalled(Duration),
    #[error("asked for a list, the store answers with success and \"{0}\"")]
    NoList(String),
}

fn stalled(time: Duration) -> HttpError {
    HttpError::new(HttpErrorKind::Timeout, NoAnswer::Stalled(time))
}

fn no_list(bytes: &[u8]) -> HttpError {
    let begin: String = String::from_utf8_lossy(bytes).chars().take(300).collect();
    HttpError::new(HttpErrorKind::Interrupted, NoAnswer::NoList(begin))
}

/// An answer's body, of which each part must come within a time since it was asked for.
struct Watched {
    body: HttpResponseBody,
    patience: Duration,
    timer: Pin<Box<Sleep>>,
    /// The timer runs.
    waiting: bool,
}

impl Watched {
    fn new(body: HttpResponseBody, patience: Duration) -> Watched {
        Watched { body, patience, timer: Box::pin(sleep(patience)), waiting: false }
    }
}

impl Body for Watched {
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
            this.timer.as_mut().reset(Instant::now() + this.patience);
        }
        this.timer.as_mut().poll(cx).map(|()| Some(Err(stalled(this.patience))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
