//! Follows a stream of Reprise, by docs/protocol.md: each event once and in order, over connections that break.
use crate::sse::{decoder, Parser};
use reqwest::header::HeaderMap;
use serde_json::value::RawValue;
use std::{collections::HashMap, time::Duration};
use tokio::time::{sleep, timeout, Instant};

/// What to follow, and how.
pub struct Options {
    pub url: String,
    pub token: String,
    pub stream: String,
    pub after: String,
    pub fail_on_gap: bool,
    pub min_wait: Duration,
    pub max_wait: Duration,
    pub idle: Duration,
}

/// An event, or a gap, whose seq is 0. The members of its JSON are not decoded, so that no data can end the loop.
pub struct Event {
    pub seq: u64,
    pub cursor: String,
    pub kind: String,
    pub text: String,
    pub members: HashMap<String, Box<RawValue>>,
}

/// Why a connection has ended.
pub enum End {
    Over,                                     // the stream has ended
    Refused(String, String),                  // a code, and a text
    Lost(String, Option<Duration>, Duration), // tried again: until so long after the last success, and after so long
}
use End::{Lost, Over, Refused};

const FIRST_CONTACT: Duration = Duration::from_secs(10);
const FOREIGN: Duration = Duration::from_secs(60);
const FAULT: Duration = Duration::from_secs(2);
const NOW: Duration = Duration::ZERO;

/// The seq and the epoch of a cursor.
fn parts(cursor: &str) -> Option<(u64, &str)> {
    let [seq, epoch, _tag] = cursor.split('.').collect::<Vec<_>>()[..] else {
        return None;
    };
    let canonical = seq == "0" || !seq.starts_with(['0', '+']);
    canonical.then_some((seq.parse().ok()?, epoch))
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
}

struct Follower<'a, F> {
    options: &'a Options,
    give: F,
    cursor: String, // to resume after, with its parts
    seq: u64,
    epoch: String,
    tail: String, // the epoch of Stream-Tail
    met: bool,    // the server has answered
    useful: bool, // the connection has brought something new
    silent: i32,  // consecutive answers with a header and no body; far below 0 at a server that is too old for polls
    retry: Duration,
}

/// Follows until the end of the stream. The error is a code, "" for none of the server, and a text.
pub async fn follow(options: &Options, give: impl FnMut(Event)) -> Result<(), (String, String)> {
    let (cursor, (seq, epoch)) = (options.after.clone(), parts(&options.after).unwrap_or((0, "")));
    let mut f = Follower {
        options,
        give,
        cursor,
        seq,
        epoch: epoch.into(),
        tail: String::new(),
        met: false,
        useful: false,
        silent: 0,
        retry: NOW,
    };
    let (mut since, mut tries) = (Instant::now(), 0);
    loop {
        f.useful = false;
        let (text, limit, asked) = match f.connection().await {
            Over => return Ok(()),
            Refused(code, text) => return Err((code, text)),
            Lost(text, limit, asked) => (text, limit, asked),
        };
        tries += 1;
        if f.useful {
            (since, tries) = (Instant::now(), 0);
            continue; // at once
        }
        if limit.is_some_and(|limit| since.elapsed() > limit) {
            return Err((String::new(), format!("{}: {tries} attempts: {text}", options.url)));
        }
        let span = (options.min_wait * (1 << tries.min(16))).min(options.max_wait);
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        sleep(asked.max(f.retry) + span.mul_f64(f64::from(clock.subsec_micros() % 1000) / 1000.0)).await;
    }
}

impl<F: FnMut(Event)> Follower<'_, F> {
    /// Makes one connection and hands out what it brings.
    async fn connection(&mut self) -> End {
        let o = self.options;
        let unmet = (!self.met).then_some(FIRST_CONTACT);
        let mut answer = match timeout(o.idle, self.request()).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Lost(error.to_string(), unmet, NOW),
            Err(_) => return Lost("silence".into(), unmet, NOW),
        };
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let wait = Duration::from_secs(header(&headers, "retry-after").parse().unwrap_or(0));
        let foreign = Some(if self.met { FOREIGN } else { NOW });
        if status >= 400 {
            let body = timeout(o.idle, answer.text()).await.map(Result::unwrap_or_default).unwrap_or_default();
            let problem: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
            return match problem["code"].as_str() {
                Some(_) if problem["retryable"] == true => Lost(body, None, wait),
                Some("invalid") if self.silent >= 2 => {
                    self.silent = i32::MIN;
                    Lost(body, None, wait)
                }
                Some(code) => Refused(code.into(), body.clone()),
                None if [408, 425, 429, 500, 502, 503, 504].contains(&status) => Lost(format!("status {status}"), unmet, wait),
                None => Lost(format!("status {status} without a code"), foreign, wait),
            };
        }
        if status == 204 && headers.contains_key("stream-outcome") {
            return Over;
        }
        if status != 200 || !header(&headers, "content-type").to_ascii_lowercase().starts_with("text/event-stream") {
            return Lost(format!("status {status} of something else"), foreign, wait);
        }
        self.met = true;
        self.tail = parts(header(&headers, "stream-tail")).map_or(String::new(), |(_, epoch)| epoch.into());
        let (mut parser, mut decode, mut came) = (Parser::default(), None, None);
        loop {
            let bytes = match timeout(o.idle, answer.chunk()).await {
                Ok(Ok(Some(bytes))) => bytes,
                Ok(_) => {
                    if came.is_some_and(|at: Instant| at.elapsed() > o.idle / 12) {
                        self.silent = self.silent.min(0); // the first bytes came well before the end: nothing holds them back
                    }
                    return Lost("the connection ended before the stream".into(), None, NOW);
                }
                Err(_) => {
                    self.silent += i32::from(came.is_none());
                    return Lost("silence".into(), None, NOW);
                }
            };
            came = came.or(Some(Instant::now()));
            if decode.is_none() {
                let coding = header(&headers, "content-encoding").to_ascii_lowercase();
                decode = decoder(&coding, &bytes);
                if decode.is_none() {
                    return Refused(String::new(), format!("the unknown content coding {coding}"));
                }
            }
            let Some(Ok(bytes)) = decode.as_mut().map(|decode| decode(&bytes)) else {
                return Lost("damaged bytes".into(), None, NOW);
            };
            for byte in bytes {
                if let Some(end) = parser.push(byte).and_then(|block| self.block(block)) {
                    return end;
                }
            }
        }
    }

    /// Sends the request for the events after the cursor. Gaps come as events.
    async fn request(&self) -> reqwest::Result<reqwest::Response> {
        let o = self.options;
        let poll = if self.silent < 2 { String::new() } else { format!("&wait={}ms", o.idle.as_millis() / 3) };
        let url = format!("{}/v1/streams/{}/events?gap=event{poll}", o.url, o.stream.replace('/', "%2F"));
        let client = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).no_proxy().build()?;
        let mut request = client.get(url).bearer_auth(&o.token).header("Accept", "text/event-stream");
        if !self.cursor.is_empty() {
            request = request.header("Last-Event-ID", &self.cursor);
        }
        request.send().await
    }

    /// Handles a block. What is not provably the server's is skipped: seq shows if something is missing.
    fn block(&mut self, mut block: HashMap<String, String>) -> Option<End> {
        if let Some(retry) = block.get("retry").and_then(|text| text.parse().ok()) {
            self.retry = Duration::from_millis(retry);
        }
        let (cursor, text) = (block.remove("id")?, block.remove("data")?);
        let kind = block.remove("event").filter(|kind| !kind.is_empty()).unwrap_or("message".into());
        let members: HashMap<String, Box<RawValue>> = serde_json::from_str(&text).ok()?;
        let (number, epoch) = parts(&cursor)?;
        let ours = epoch == self.tail || epoch == self.epoch || self.tail.is_empty() && self.epoch.is_empty();
        let seq = members.get("seq").and_then(|n| n.get().parse().ok()).unwrap_or(0);
        let code: String = members.get("code").and_then(|code| serde_json::from_str(code.get()).ok()).unwrap_or_default();
        if kind == "gap" && seq == 0 && (ours && !code.is_empty() || code == "epoch_changed") {
            if code == "cursor_expired" && epoch == self.epoch && number <= self.seq {
                return None; // the server has not received the cursor
            }
            if self.options.fail_on_gap {
                return Some(Refused(code, "events are gone".into()));
            }
        } else if seq != number || seq <= self.seq || !ours && (seq != self.seq + 1 || self.epoch.is_empty()) {
            return None; // of something else, or for the second time
        } else if seq != self.seq + 1 && !(self.epoch.is_empty() && self.options.after == "earliest") {
            return Some(Lost(format!("event {seq} comes after {}", self.seq), Some(FAULT), NOW));
        }
        self.useful |= cursor != self.cursor;
        (self.seq, self.epoch, self.cursor) = (number, epoch.into(), cursor.clone());
        let end = (kind == "end").then_some(Over);
        (self.give)(Event { seq, cursor, kind, text, members });
        end
    }
}
