//! One request over HTTP/1.1, whose answer is read as it comes.
use std::io::{self, BufRead, BufReader, Error, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// An answer. Names of headers are in lower case.
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Box<dyn Read>,
}

impl Answer {
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value)
    }
}

/// Connects. The idle time bounds each wait for bytes.
pub fn connect(url: &str, idle: Duration) -> io::Result<TcpStream> {
    let host = url
        .strip_prefix("http://")
        .ok_or_else(|| Error::other("only http is known here"))?;
    let address = host.to_socket_addrs()?.next().ok_or_else(|| Error::other("no address"))?;
    let stream = TcpStream::connect_timeout(&address, idle)?;
    stream.set_read_timeout(Some(idle))?;
    Ok(stream)
}

/// Sends a request and reads the head of the answer.
pub fn get(stream: TcpStream, url: &str, target: &str, headers: &[(&str, &str)]) -> io::Result<Answer> {
    let mut text = format!("GET {target} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", &url[7..]);
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    (&stream).write_all((text + "\r\n").as_bytes())?;
    let mut input = BufReader::new(stream);
    let head = line(&mut input)?;
    let status = head
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.get(2..5))
        .and_then(|code| code.parse().ok());
    let status = status.ok_or_else(|| Error::other("not HTTP"))?;
    let mut headers = Vec::new();
    loop {
        let field = line(&mut input)?;
        if field.is_empty() {
            break;
        }
        let (name, value) = field.split_once(':').unwrap_or((&field, ""));
        headers.push((name.to_ascii_lowercase(), value.trim().to_string()));
    }
    let mut answer = Answer {
        status,
        headers,
        body: Box::new(io::empty()),
    };
    let chunked = answer.header("transfer-encoding") == "chunked";
    let left = answer.header("content-length").parse().unwrap_or(u64::MAX);
    let plain = Body {
        input,
        chunked,
        left: if chunked { 0 } else { left },
        begun: false,
    };
    answer.body = match answer.header("content-encoding").to_ascii_lowercase().as_str() {
        "" | "identity" => Box::new(plain),
        "gzip" | "x-gzip" => Box::new(flate2::read::GzDecoder::new(plain)),
        "deflate" => {
            let mut input = BufReader::new(plain);
            let head = input.fill_buf()?;
            let zlib = head.len() < 2 || head[0] & 15 == 8 && (u16::from(head[0]) << 8 | u16::from(head[1])) % 31 == 0;
            if zlib {
                Box::new(flate2::bufread::ZlibDecoder::new(input))
            } else {
                Box::new(flate2::bufread::DeflateDecoder::new(input))
            }
        }
        _ => Box::new(io::empty()), // the caller names it
    };
    Ok(answer)
}

/// A body, with or without chunks.
struct Body {
    input: BufReader<TcpStream>,
    chunked: bool,
    left: u64, // of the chunk, or of the body
    begun: bool,
}

impl Read for Body {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.chunked && self.left == 0 {
            if self.begun {
                line(&mut self.input)?;
            }
            self.begun = true;
            let size = line(&mut self.input)?;
            self.left = u64::from_str_radix(size.split(';').next().unwrap_or("").trim(), 16).map_err(Error::other)?;
        }
        let most = buf.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let n = self.input.read(&mut buf[..most])?;
        self.left -= n as u64;
        Ok(n)
    }
}

fn line(input: &mut impl BufRead) -> io::Result<String> {
    let mut text = Vec::new();
    input.take(1 << 16).read_until(b'\n', &mut text)?;
    if text.pop() != Some(b'\n') {
        return Err(Error::other("the connection was cut"));
    }
    Ok(String::from_utf8_lossy(&text).trim_end_matches('\r').to_string())
}
