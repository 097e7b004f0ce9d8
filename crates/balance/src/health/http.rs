//! Answers of HTTP/1 (RFC 9112), as far as a probe needs them.

use super::bad_answer::BadAnswer;
use super::check::HttpCheck;

/// An answer without the interim ones that may come before it (RFC 9110, 15.2): `100 Continue`, `103 Early Hints`.
fn final_answer(mut answer: &[u8]) -> &[u8] {
    const SWITCHING: &[u8] = b"101";
    while let Some(status) = answer.strip_prefix(b"HTTP/1.1 ")
        && status.first() == Some(&b'1')
        && !status.starts_with(SWITCHING)
        && let Some(end) = end_of_head(answer)
    {
        answer = &answer[end..];
    }
    answer
}

/// The status of an answer, and its body as far as it is there. `None`: it does not begin as an answer of HTTP/1 does.
pub fn read_answer(answer: &[u8]) -> Option<(u16, &[u8])> {
    let answer = final_answer(answer);
    let rest = answer.strip_prefix(b"HTTP/1.1 ").or_else(|| answer.strip_prefix(b"HTTP/1.0 "))?;
    let status = rest.get(..3).filter(|status| status.iter().all(u8::is_ascii_digit))?;
    if rest.get(3).is_some_and(u8::is_ascii_alphanumeric) {
        return None;
    }
    let status = str::from_utf8(status).ok()?.parse().ok()?;
    let body = end_of_head(answer).unwrap_or(answer.len());
    Some((status, &answer[body..]))
}

/// Where the body of an answer begins, if that has come.
pub fn end_of_head(answer: &[u8]) -> Option<usize> {
    answer.windows(4).position(|end| end == b"\r\n\r\n").map(|end| end + 4)
}

/// Whether an answer that says how long it is has come.
pub fn is_whole(answer: &[u8]) -> bool {
    let answer = final_answer(answer);
    let Some(end) = end_of_head(answer) else { return false };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    length.is_some_and(|length| answer.len() - end >= length)
}

impl HttpCheck {
    /// The request, to a server with this address and port.
    pub fn request(&self, server: &str) -> Vec<u8> {
        let (path, host) = (&self.path, self.host.as_deref().unwrap_or(server));
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: heddle\r\nConnection: close\r\n\r\n").into_bytes()
    }

    /// Whether no more of an answer is needed.
    pub fn is_enough(&self, answer: &[u8]) -> bool {
        match &self.contains {
            None => end_of_head(final_answer(answer)).is_some(),
            Some(wanted) => is_whole(answer) || read_answer(answer).is_some_and(|(_, body)| contains(body, wanted)),
        }
    }

    /// Whether it is the answer of a server that is well.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn judge(&self, answer: &[u8]) -> Result<(), BadAnswer> {
        let (status, body) = read_answer(answer).ok_or(BadAnswer::NotHttp)?;
        let (lowest, highest) = self.status;
        if !(lowest..=highest).contains(&status) {
            return Err(BadAnswer::Status(status));
        }
        match &self.contains {
            Some(wanted) if !contains(body, wanted) => Err(BadAnswer::Lacks),
            _ => Ok(()),
        }
    }
}

fn contains(body: &[u8], wanted: &str) -> bool {
    wanted.is_empty() || body.windows(wanted.len()).any(|part| part == wanted.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_judged_by_its_status_and_its_body() {
        for (answer, wanted, expected) in [
            (&b"HTTP/1.1 200 OK\r\n\r\nfine"[..], None, Ok(())),
            (b"HTTP/1.1 200 OK\r\n\r\nfine", Some("fine"), Ok(())),
            (b"HTTP/1.1 204\r\n\r\n", None, Ok(())),
            (
                b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\nfine",
                Some("fine"),
                Ok(()),
            ),
            (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500\r\n\r\n", None, Err(BadAnswer::Status(500))),
            (b"HTTP/1.1 101 Switching\r\n\r\n", None, Err(BadAnswer::Status(101))),
            (b"HTTP/1.1 200 OK\r\nx: fine\r\n\r\nbad", Some("fine"), Err(BadAnswer::Lacks)),
            (b"HTTP/1.0 503 Service Unavailable\r\n\r\n", None, Err(BadAnswer::Status(503))),
            (b"HTTP/1.9x200 OK\r\n\r\n", None, Err(BadAnswer::NotHttp)),
            (b"HTTP/1.1 2000\r\n\r\n", None, Err(BadAnswer::NotHttp)),
            (b"HTTP/1.1 20", None, Err(BadAnswer::NotHttp)),
            (b"SSH-2.0", None, Err(BadAnswer::NotHttp)),
            (b"", None, Err(BadAnswer::NotHttp)),
        ] {
            let contains = wanted.map(str::to_owned);
            let check = HttpCheck { tls: None, path: "/".to_owned(), host: None, status: (200, 399), contains };
            assert_eq!(check.judge(answer), expected, "{}", String::from_utf8_lossy(answer));
        }
    }

    #[test]
    fn no_more_is_read_than_is_needed() {
        let all = HttpCheck { tls: None, path: "/".to_owned(), host: None, status: (200, 200), contains: None };
        let some = HttpCheck { contains: Some("ne".to_owned()), ..all.clone() };
        for (answer, is_enough, is_enough_of_body) in [
            (&b"HTTP/1.1 200 OK\r\n"[..], false, false),
            (b"HTTP/1.1 100\r\n\r\nHTTP/1.1 200 OK\r\n", false, false),
            (b"HTTP/1.1 200 OK\r\n\r\nfi", true, false),
            (b"HTTP/1.1 200 OK\r\n\r\nfine, and more", true, true),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad", true, true),
        ] {
            assert_eq!((all.is_enough(answer), some.is_enough(answer)), (is_enough, is_enough_of_body));
        }
    }
}
