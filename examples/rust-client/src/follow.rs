//! Follows a stream of Reprise, by docs/protocol.md: each event once and in order, over connections that break.
use crate::http;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// What to follow, and how.
pub struct Options {
    pub url: String,
    pub token: String,
    pub stream: String,
    pub after: String,
    pub types: Vec<String>,
    pub fail_on_gap: bool,
    pub min_wait: Duration,
    pub max_wait: Duration,
    pub idle: Duration,
}

/// An event or a gap, with the members of its JSON.
pub struct Event {
    pub seq: u64,
    pub cursor: String,
    pub kind: String,
    pub text: String,
    pub members: HashMap<String, Box<RawValue>>,
}

/// Why a connection, or the loop, has ended.
pub enum Failure {
    Lost(String),          // the network: tried again
    Foreign(String),       // an answer that is not the server's: tried again for a while once the server was met
    Fault(String),         // against the protocol: tried again twice
    Passing(Duration),     // a refusal that passes
    Final(String, String), // a code, "" for none, and a text
}
use Failure::{Fault, Final, Foreign, Lost, Passing};

/// Ends a loop from another thread.
#[derive(Default)]
pub struct Stop(Mutex<(bool, Option<TcpStream>)>);

impl Stop {
    pub fn stop(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 = true;
        if let Some(socket) = &state.1 {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
    fn stopped(&self) -> bool {
        self.0.lock().unwrap().0
    }
    fn hold(&self, socket: &TcpStream) {
        let mut state = self.0.lock().unwrap();
        state.1 = socket.try_clone().ok();
        if state.0 {
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

/// The parts of a cursor that a client may read.
fn parts(cursor: &str) -> Option<(u64, &str)> {
    let mut fields = cursor.split('.');
    let (seq, epoch, _tag) = (fields.next()?, fields.next()?, fields.next()?);
    let canonical = seq == "0" || !seq.starts_with('0');
    (canonical && fields.next().is_none() && seq.bytes().all(|c| c.is_ascii_digit())).then_some((seq.parse().ok()?, epoch))
}

/// One block of the event stream.
#[derive(Default)]
struct Block {
    id: Option<String>,
    kind: String,
    data: Option<Vec<u8>>,
}

struct Follower<'a> {
    options: &'a Options,
    stop: &'a Stop,
    give: &'a mut dyn FnMut(Event),
    cursor: String,
    seq: u64,
    epoch: String,   // of the last event, "" before
    tail: String,    // the epoch of Stream-Tail
    doubted: String, // an epoch for which a reader of some types has asked again
    retry: Duration,
    met: bool,
    useful: bool, // the connection has brought something new
    ended: bool,
}

/// Follows until the end of the stream. The error is a code and a text.
pub fn follow(options: &Options, stop: &Stop, give: &mut dyn FnMut(Event)) -> Result<(), (String, String)> {
    let mut f = Follower {
        options,
        stop,
        give,
        cursor: options.after.clone(),
        seq: 0,
        epoch: String::new(),
        tail: String::new(),
        doubted: String::new(),
        retry: Duration::ZERO,
        met: false,
        useful: false,
        ended: false,
    };
    if let Some((seq, epoch)) = parts(&options.after) {
        (f.seq, f.epoch) = (seq, epoch.to_string());
    }
    let (mut tries, mut faults, mut since, mut foreign) = (0u32, 0, Instant::now(), None);
    loop {
        f.useful = false;
        let outcome = f.connection();
        if f.ended || stop.stopped() {
            return Ok(());
        }
        if f.useful {
            (tries, faults, since) = (0, 0, Instant::now());
        } else {
            tries += 1;
        }
        let mut asked = f.retry;
        if !matches!(outcome, Foreign(_)) {
            foreign = None;
        }
        match outcome {
            Final(code, text) => return Err((code, text)),
            Fault(text)
                if {
                    faults += 1;
                    faults >= 3
                } =>
            {
                return Err((String::new(), text))
            }
            Foreign(text) => {
                let begun = *foreign.get_or_insert_with(Instant::now);
                if !f.met || begun.elapsed() > Duration::from_secs(60) {
                    return Err((String::new(), format!("{}: {text}", options.url)));
                }
            }
            Lost(text) if !f.met && since.elapsed() > Duration::from_secs(10) => {
                return Err((
                    String::new(),
                    format!("{} was not reached in {tries} attempts: {text}", options.url),
                ));
            }
            Passing(wait) => asked = asked.max(wait),
            Fault(_) | Lost(_) => {}
        }
        if tries > 0 {
            let span = options.min_wait.saturating_mul(1 << tries.min(16)).min(options.max_wait);
            let random = f64::from(
                std::time::SystemTime::now()
                    .duration_since(std::time::UNIX_EPOCH)
                    .unwrap()
                    .subsec_nanos()
                    % 1000,
            ) / 1000.0;
            let until = Instant::now() + asked + span.mul_f64(random);
            while Instant::now() < until && !stop.stopped() {
                sleep(Duration::from_millis(5).min(until - Instant::now()));
            }
        }
    }
}

impl Follower<'_> {
    /// Makes one connection and hands out what it brings.
    fn connection(&mut self) -> Failure {
        match self.open() {
            Ok(answer) => self.read(answer),
            Err(failure) => failure,
        }
    }

    fn open(&mut self) -> Result<http::Answer, Failure> {
        let o = self.options;
        let mut target = format!("/v1/streams/{}/events?", o.stream.replace('/', "%2F"));
        if !o.fail_on_gap {
            target += "gap=event&";
        }
        if !o.types.is_empty() {
            target += &format!("types={},end", o.types.join(","));
        }
        let bearer = format!("Bearer {}", o.token);
        let mut headers = vec![
            ("Accept", "text/event-stream"),
            ("Accept-Encoding", "identity"),
            ("Authorization", &bearer),
        ];
        if !self.cursor.is_empty() {
            headers.push(("Last-Event-ID", &self.cursor));
        }
        let socket = http::connect(&o.url, o.idle).map_err(|e| Lost(e.to_string()))?;
        self.stop.hold(&socket);
        let mut answer = http::get(socket, &o.url, &target, &headers).map_err(|e| Lost(e.to_string()))?;
        if answer.status >= 400 {
            let mut body = String::new();
            let _ = answer.body.by_ref().take(1 << 16).read_to_string(&mut body);
            let problem: serde_json::Value = serde_json::from_str(&body).unwrap_or_default();
            let wait = Duration::from_secs(answer.header("retry-after").parse().unwrap_or(0));
            return Err(match (problem["code"].as_str(), answer.status) {
                (Some(code), _) => {
                    self.met = true;
                    if problem["retryable"] == true {
                        Passing(wait)
                    } else {
                        Final(code.into(), problem["detail"].to_string())
                    }
                }
                (None, 408 | 425 | 429 | 500 | 502 | 503 | 504) => Passing(wait),
                (None, status) => Foreign(format!("status {status}")),
            });
        }
        if answer.status == 204 && !answer.header("stream-outcome").is_empty() {
            self.ended = true;
            return Err(Lost(String::new()));
        }
        if answer.status != 200 || !answer.header("content-type").starts_with("text/event-stream") {
            return Err(Foreign(format!("status {} with another content", answer.status)));
        }
        let coding = answer.header("content-encoding").to_ascii_lowercase();
        if !["", "identity", "gzip", "x-gzip", "deflate"].contains(&coding.as_str()) {
            return Err(Fault(format!("the unknown content coding {coding}")));
        }
        self.met = true;
        let gone = parts(answer.header("stream-earliest")).map_or(0, |(seq, _)| seq); // events before the kept ones
        if !o.types.is_empty() && gone > 0 && (o.fail_on_gap || answer.header("stream-missed").is_empty()) {
            self.missing_start(gone, answer.header("stream-earliest"))?;
        }
        self.tail = parts(answer.header("stream-tail")).map_or(String::new(), |(_, epoch)| epoch.to_string());
        Ok(answer)
    }

    /// Reads blocks as the HTML standard has them. Lines end with LF, CR LF or CR.
    fn read(&mut self, mut answer: http::Answer) -> Failure {
        let (mut buf, mut line, mut after_cr, mut first, mut block) =
            (vec![0; 64 << 10], Vec::new(), false, true, Block::default());
        loop {
            let n = match answer.body.read(&mut buf) {
                Ok(0) => return Lost("the connection ended before the stream".into()),
                Ok(n) => n,
                Err(error) => return Lost(error.to_string()),
            };
            for &byte in &buf[..n] {
                let lf_of_cr = after_cr && byte == b'\n';
                after_cr = byte == b'\r';
                if byte != b'\n' && byte != b'\r' {
                    line.push(byte);
                    if line.len() > 17 << 20 {
                        return Fault("a line is too long".into());
                    }
                } else if !lf_of_cr {
                    let whole = if first {
                        line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&line)
                    } else {
                        &line
                    };
                    first = false;
                    if whole.is_empty() {
                        if let Err(failure) = self.block(std::mem::take(&mut block)) {
                            return failure;
                        }
                        if self.ended || self.stop.stopped() {
                            return Lost(String::new());
                        }
                    } else {
                        self.field(whole, &mut block);
                    }
                    line.clear();
                }
            }
        }
    }

    fn field(&mut self, line: &[u8], block: &mut Block) {
        let colon = line.iter().position(|&c| c == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or(b"");
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || String::from_utf8_lossy(value).into_owned();
        match &line[..colon] {
            b"id" if !value.contains(&0) => block.id = Some(text()),
            b"event" => block.kind = text(),
            b"data" => match &mut block.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => block.data = Some(value.to_vec()),
            },
            b"retry" => self.retry = text().parse().map_or(self.retry, Duration::from_millis),
            _ => {}
        }
    }

    /// Handles a block. What is not provably the server's is skipped.
    fn block(&mut self, block: Block) -> Result<(), Failure> {
        let filtered = !self.options.types.is_empty();
        let id = block.id.unwrap_or_default();
        let at = parts(&id);
        let ours = at.is_some_and(|(_, epoch)| self.owns(epoch));
        let text = block.data.as_ref().map(|data| String::from_utf8_lossy(data).into_owned());
        let parsed = text
            .as_ref()
            .map(|text| serde_json::from_str::<HashMap<String, Box<RawValue>>>(text));
        let seq =
            |members: &HashMap<String, Box<RawValue>>| members.get("seq").and_then(|n| n.get().parse::<u64>().ok()).unwrap_or(0);
        let (text, members) = match (text, parsed) {
            (Some(text), Some(Ok(members))) if block.kind != "cursor" || seq(&members) > 0 => (text, members),
            (Some(_), Some(Err(_))) => {
                let later = ours && at.is_some_and(|(n, _)| n > self.seq);
                return if later {
                    Err(Fault(format!("event {id} is not JSON")))
                } else {
                    Ok(())
                };
            }
            _ => {
                // only an id: it moves the cursor of a reader of some types
                if let Some((n, epoch)) = at.filter(|&(n, _)| filtered && ours && n >= self.seq) {
                    (self.seq, self.epoch, self.useful) = (n, epoch.to_string(), true);
                    self.cursor = id;
                }
                return Ok(());
            }
        };
        let n = seq(&members);
        let code = members
            .get("code")
            .map_or("", |code| code.get())
            .trim_matches('"')
            .to_string();
        let is_gap =
            block.kind == "gap" && n == 0 && ["cursor_expired", "epoch_changed", "cursor_ahead"].contains(&code.as_str());
        let Some((number, epoch)) = at else {
            let damaged = id.is_empty() && n > 0 && members.contains_key("time");
            return if damaged {
                Err(Fault(format!("event {n} has no id")))
            } else {
                Ok(())
            };
        };
        let event = |kind: String| Event {
            seq: n,
            cursor: id.clone(),
            kind,
            text,
            members,
        };
        if is_gap {
            if ours || code == "epoch_changed" {
                if self.options.fail_on_gap {
                    return Err(Final(code, "events are no longer kept".into()));
                }
                (self.seq, self.epoch, self.useful) = (number, epoch.to_string(), self.useful || self.cursor != id);
                self.cursor = id.clone();
                (self.give)(event("gap".into()));
            }
            return Ok(());
        }
        let follows = n == self.seq + 1 && !self.epoch.is_empty();
        if n == 0 || !ours && (filtered || !follows) {
            if n > 0 && filtered && number == n && self.doubted != epoch {
                self.doubted = epoch.to_string(); // Stream-Tail of the next answer tells whose it is
                return Err(Lost("an event of an unknown epoch".into()));
            }
            return Ok(());
        }
        if number != n {
            return Err(Fault(format!("event {n} has the id {id}")));
        }
        if !self.epoch.is_empty() && n <= self.seq {
            return Ok(()); // it came before
        }
        if !filtered && !self.epoch.is_empty() && n != self.seq + 1 {
            return Err(Fault(format!("event {n} comes after {}", self.seq)));
        }
        if !filtered && n > 1 {
            self.missing_start(n - 1, &id)?;
        }
        (self.seq, self.epoch, self.cursor, self.useful) = (n, epoch.to_string(), id.clone(), true);
        self.ended = block.kind == "end";
        let kind = if block.kind.is_empty() { "message".into() } else { block.kind };
        (self.give)(event(kind));
        Ok(())
    }

    /// Reports the gap before the first kept event to a reader of all events from the first one.
    fn missing_start(&mut self, missed: u64, earliest: &str) -> Result<(), Failure> {
        if !self.cursor.is_empty() || !["", "0"].contains(&self.options.after.as_str()) {
            return Ok(());
        }
        if self.options.fail_on_gap {
            return Err(Final("cursor_expired".into(), format!("{missed} events are no longer kept")));
        }
        let text = format!("{{\"code\":\"cursor_expired\",\"missed\":{missed}}}");
        (self.give)(Event {
            seq: 0,
            cursor: earliest.into(),
            kind: "gap".into(),
            text,
            members: HashMap::new(),
        });
        Ok(())
    }

    /// Whether an epoch is the server's: that of the last event, or of the tail. Before both are known, any may be.
    fn owns(&self, epoch: &str) -> bool {
        epoch == self.epoch || epoch == self.tail || self.epoch.is_empty() && self.tail.is_empty()
    }
}
