//! The client behind the service contract of "reprise check-client": commands on stdin, what happened on stdout.
mod follow;
mod sse;

use base64::{prelude::BASE64_STANDARD, Engine};
use follow::{follow, Event, Options};
use serde_json::{json, Value};
use std::{collections::HashMap, io::Write, sync::Arc, time::Duration};
use tokio::io::{stdin, AsyncBufReadExt, BufReader};
use tokio::sync::Notify;

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush()); // a suite that has gone reads nothing
}

fn give(id: &Value, event: &Event) {
    let member = |name: &str| event.members.get(name).map(|value| value.get());
    if event.seq == 0 {
        let gap: Value = serde_json::from_str(&event.text).unwrap_or_default();
        let number = |name: &str| gap[name].as_u64().unwrap_or(0);
        let told = json!({"code": gap["code"], "missed": number("missed"), "taken_back": number("taken_back")});
        return say(&json!({"id": id, "gap": told}).to_string());
    }
    let content = if let Some(data) = member("data").filter(|_| event.kind != "end") {
        format!("\"json\":{data}")
    } else if let Some(text) = member("text") {
        let text: String = serde_json::from_str(text).unwrap_or_default();
        format!("\"data\":\"{}\"", BASE64_STANDARD.encode(text))
    } else if let Some(bytes) = member("base64") {
        format!("\"data\":{bytes}")
    } else {
        format!("\"json\":{}", event.text)
    };
    let told = json!({"seq": event.seq, "cursor": event.cursor, "type": event.kind}).to_string();
    let line = format!("{{\"id\":{id},\"event\":{},{content}}}}}", &told[..told.len() - 1]);
    say(&line.replace(['\n', '\r'], " "));
}

/// Performs a command, until it ends or is stopped.
async fn perform(command: Value, stop: Arc<Notify>) {
    let text = |name: &str| command[name].as_str().unwrap_or_default().to_string();
    let time = |name: &str, default| Duration::from_millis(command[name].as_u64().unwrap_or(default));
    let options = Options {
        url: text("url"),
        token: text("token"),
        stream: text("stream"),
        after: text("after"),
        fail_on_gap: command["gap"] == "fail",
        min_wait: time("min_wait_ms", 500),
        max_wait: time("max_wait_ms", 30_000),
        idle: time("idle_ms", 45_000),
    };
    let id = &command["id"];
    tokio::select! {
        result = follow(&options, |event| give(id, &event)) => if let Err((code, text)) = result {
            say(&json!({"id": id, "error": {"code": code, "text": text}}).to_string());
        },
        () = stop.notified() => {}
    }
    say(&json!({"id": id, "done": true}).to_string());
}

#[tokio::main]
async fn main() {
    say(r#"{"hello":{"name":"Rust, an example","kind":"reprise","can":["gap"]}}"#);
    let (mut stops, mut tasks) = (HashMap::<String, Arc<Notify>>::new(), Vec::new());
    let mut lines = BufReader::new(stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let command: Value = serde_json::from_str(&line).expect("a command is JSON");
        let id = command["id"].to_string();
        if command["do"] == "stop" {
            stops[&id].notify_one();
            continue;
        }
        let stop = stops.entry(id).or_default().clone();
        tasks.push(tokio::spawn(perform(command, stop)));
    }
    stops.values().for_each(|stop| stop.notify_one());
    for task in tasks {
        let _ = task.await; // what a task panics about is on stderr
    }
}
