//! Puts reqwest-eventsource behind the service contract of "reprise check-client", as a reader of any source:
//!
//!     cargo build --release --manifest-path examples/readers/rust/Cargo.toml --target-dir /tmp/reader
//!     reprise check-client -- /tmp/reader/release/readers
use base64::{prelude::BASE64_STANDARD, Engine};
use futures_util::StreamExt;
use reqwest_eventsource::{retry::Constant, Error, Event, EventSource};
use serde_json::{json, Value};
use std::{collections::HashMap, io::Write, time::Duration};
use tokio::io::{stdin, AsyncBufReadExt, BufReader};

fn say(message: Value) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{message}");
}

/// Reads a source until it answers 204, or its reader ends.
async fn follow(command: Value) {
    let text = |name: &str| command[name].as_str().unwrap_or("").to_owned();
    let mut request = reqwest::Client::new().get(text("source")).bearer_auth(text("token"));
    if !text("after").is_empty() {
        request = request.header("Last-Event-ID", text("after"));
    }
    let mut source = EventSource::new(request).expect("a request without a body can be cloned");
    source.set_retry_policy(Box::new(Constant::new(Duration::from_millis(1), None)));
    while let Some(event) = source.next().await {
        match event {
            Ok(Event::Open) => {}
            Ok(Event::Message(e)) => {
                let data = BASE64_STANDARD.encode(e.data);
                say(json!({"id": command["id"], "event": {"type": e.event, "cursor": e.id, "data": data}}));
            }
            Err(Error::InvalidStatusCode(status, _)) if status == 204 => break,
            Err(_) => {} // it asks again, or has ended
        }
    }
}

#[tokio::main]
async fn main() {
    say(json!({"hello": {"name": "reqwest-eventsource", "kind": "sse", "can": []}}));
    let (mut lines, mut tasks) = (BufReader::new(stdin()).lines(), HashMap::new());
    while let Ok(Some(line)) = lines.next_line().await {
        let command: Value = serde_json::from_str(&line).expect("a command is JSON");
        let id = command["id"].to_string();
        if command["do"] == "stop" {
            let (task, stopped): (tokio::task::JoinHandle<()>, _) = tasks.remove(&id).expect("it was begun");
            task.abort();
            if task.await.is_err() {
                say(json!({"id": stopped, "done": true}));
            }
            continue;
        }
        let name = command["id"].clone();
        let task = tokio::spawn(async move {
            let id = command["id"].clone();
            follow(command).await;
            say(json!({"id": id, "done": true}));
        });
        tasks.insert(id, (task, name));
    }
}
