//! A client of Reprise behind the service contract of "reprise check-client": commands on stdin, what happened on stdout.
mod follow;
mod http;

use base64::{prelude::BASE64_STANDARD, Engine};
use follow::{follow, Event, Options, Stop};
use serde_json::{json, Value};
use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush()); // a suite that has gone reads nothing
}

fn give(id: &Value, event: &Event) {
    let member = |name: &str| event.members.get(name).map(|value| value.get());
    if event.kind == "gap" && event.seq == 0 {
        let gap: Value = serde_json::from_str(&event.text).unwrap_or_default();
        let told = json!({"code": gap["code"], "missed": gap["missed"].as_u64().unwrap_or(0), "taken_back": gap["taken_back"].as_u64().unwrap_or(0)});
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

fn main() {
    say(r#"{"hello":{"name":"Rust, an example","kind":"reprise","can":["types","gap"]}}"#);
    let mut tasks: HashMap<String, Arc<Stop>> = HashMap::new();
    let mut threads = Vec::new();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let command: Value = serde_json::from_str(&line).expect("a command is JSON");
        let text = |name: &str| command[name].as_str().unwrap_or_default().to_string();
        let time = |name: &str, default| Duration::from_millis(command[name].as_u64().unwrap_or(default));
        if command["do"] == "stop" {
            tasks[&text("id")].stop();
            continue;
        }
        let types = command["types"]
            .as_array()
            .map(|list| list.iter().filter_map(|one| one.as_str().map(String::from)).collect());
        let options = Options {
            url: text("url"),
            token: text("token"),
            stream: text("stream"),
            after: text("after"),
            types: types.unwrap_or_default(),
            fail_on_gap: command["gap"] == "fail",
            min_wait: time("min_wait_ms", 500),
            max_wait: time("max_wait_ms", 30_000),
            idle: time("idle_ms", 45_000),
        };
        let stop = Arc::new(Stop::default());
        tasks.insert(text("id"), stop.clone());
        let id = command["id"].clone();
        threads.push(std::thread::spawn(move || {
            if let Err((code, text)) = follow(&options, &stop, &mut |event| give(&id, &event)) {
                say(&json!({"id": id, "error": {"code": code, "text": text}}).to_string());
            }
            say(&json!({"id": id, "done": true}).to_string());
        }));
    }
    for stop in tasks.values() {
        stop.stop();
    }
    for thread in threads {
        let _ = thread.join(); // what a thread panics about is on stderr
    }
}
