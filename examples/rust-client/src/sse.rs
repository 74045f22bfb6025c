//! What every reader of Server-Sent Events needs: content codings and the event stream.
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use std::{collections::HashMap, io, io::Write, mem::take};

pub type Decode = Box<dyn FnMut(&[u8]) -> io::Result<Vec<u8>> + Send>;

/// The decoder of a content coding, which some proxies use unasked. Whatever was flushed comes out.
pub fn decoder(coding: &str, first: &[u8]) -> Option<Decode> {
    macro_rules! of {
        ($decoder:ident) => {{
            let mut d = $decoder::new(Vec::new());
            Box::new(move |bytes: &[u8]| d.write_all(bytes).and_then(|()| d.flush()).map(|()| take(d.get_mut())))
        }};
    }
    let zlib = first.len() < 2 || first[0] & 15 == 8 && (u16::from(first[0]) << 8 | u16::from(first[1])) % 31 == 0;
    Some(match coding {
        "" | "identity" | "none" => Box::new(|bytes| Ok(bytes.to_vec())),
        "gzip" | "x-gzip" => of!(MultiGzDecoder),
        "deflate" if zlib => of!(ZlibDecoder),
        "deflate" => of!(DeflateDecoder),
        _ => return None,
    })
}

/// Blocks of an event stream, as the HTML standard has them. Lines end with LF, CR LF or CR.
#[derive(Default)]
pub struct Parser {
    line: Vec<u8>,
    after_cr: bool,
    begun: bool,
    block: HashMap<String, String>, // fields by name
}

impl Parser {
    /// Takes a byte, and returns the fields of a block that it ends.
    pub fn push(&mut self, byte: u8) -> Option<HashMap<String, String>> {
        let second = take(&mut self.after_cr) && byte == b'\n';
        self.after_cr = byte == b'\r';
        if !matches!(byte, b'\n' | b'\r') {
            self.line.push(byte);
            return None;
        }
        let line = String::from_utf8_lossy(&self.line).into_owned();
        let line = if self.begun { &line } else { line.trim_start_matches('\u{feff}') };
        if second {
            return None;
        }
        (self.begun, self.line) = (true, Vec::new());
        if line.is_empty() {
            return Some(take(&mut self.block));
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match self.block.get_mut(name).filter(|_| name == "data") {
            Some(data) => *data += &format!("\n{value}"),
            None => drop(self.block.insert(name.into(), value.into())),
        }
        None
    }
}
