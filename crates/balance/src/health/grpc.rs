//! Messages of gRPC's health checks (`grpc.health.v1`): a name in, a number out.

use super::bad_answer::BadAnswer;

/// Where they are asked for.
pub const PATH: &str = "/grpc.health.v1.Health/Check";

/// Bytes of a message in front of its content: whether it is compressed, and its length.
const PREFIX: usize = 5;

/// The request about a service, as it stands in the body of HTTP/2. A name has 2,000 bytes at most.
pub fn request(service: &str) -> Vec<u8> {
    let mut message = Vec::with_capacity(service.len() + 3);
    if !service.is_empty() {
        // Field 1, of bytes.
        message.push(1 << 3 | 2);
        push_varint(&mut message, service.len() as u64);
        message.extend_from_slice(service.as_bytes());
    }
    let mut body = vec![0];
    body.extend_from_slice(&(message.len() as u32).to_be_bytes());
    body.extend(message);
    body
}

/// Whether an answer's body says that the service serves.
///
/// # Errors
/// What it says otherwise.
pub fn judge(body: &[u8]) -> Result<(), BadAnswer> {
    let (prefix, message) = body.split_first_chunk::<PREFIX>().ok_or(BadAnswer::NotGrpc)?;
    let [0, length @ ..] = *prefix else { return Err(BadAnswer::NotGrpc) };
    if message.len() != u32::from_be_bytes(length) as usize {
        return Err(BadAnswer::NotGrpc);
    }
    match status(message).ok_or(BadAnswer::NotGrpc)? {
        1 => Ok(()),
        0 => Err(BadAnswer::NotServing("UNKNOWN")),
        2 => Err(BadAnswer::NotServing("NOT_SERVING")),
        3 => Err(BadAnswer::NotServing("SERVICE_UNKNOWN")),
        _ => Err(BadAnswer::NotServing("a status that nobody knows")),
    }
}

/// Field 1 of a message of protocol buffers, which is 0 where it is absent; where it is there twice, the last one counts.
fn status(mut message: &[u8]) -> Option<u64> {
    let mut status = 0;
    while !message.is_empty() {
        let key = take_varint(&mut message)?;
        match (key >> 3, key & 7) {
            (1, 0) => status = take_varint(&mut message)?,
            (0 | 1, _) => return None,
            (_, 0) => _ = take_varint(&mut message)?,
            (_, 1) => message = message.get(8..)?,
            (_, 2) => {
                let length = usize::try_from(take_varint(&mut message)?).ok()?;
                message = message.get(length..)?;
            }
            (_, 5) => message = message.get(4..)?,
            _ => return None,
        }
    }
    Some(status)
}

/// Seven bits a byte, the lowest first; the highest bit says that another one follows.
fn take_varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn push_varint(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_as_the_protocol_has_it() {
        assert_eq!(request(""), [0, 0, 0, 0, 0]);
        assert_eq!(request("web"), [0, 0, 0, 0, 5, 0x0a, 3, b'w', b'e', b'b']);
        let long = request(&"x".repeat(300));
        assert_eq!((long.len(), &long[..8]), (308, &[0, 0, 0, 1, 0x2f, 0x0a, 0xac, 2][..]));
    }

    #[test]
    fn only_one_answer_is_good() {
        let body = |message: &[u8]| [&[0, 0, 0, 0, message.len() as u8][..], message].concat();
        for (message, expected) in [
            (&[8, 1][..], Ok(())),
            // A field that nobody knows, in front and behind.
            (&[0x12, 1, 9, 8, 1, 0x1d, 0, 0, 0, 0], Ok(())),
            (&[8, 2, 8, 1], Ok(())),
            (&[], Err(BadAnswer::NotServing("UNKNOWN"))),
            (&[8, 2], Err(BadAnswer::NotServing("NOT_SERVING"))),
            (&[8, 3], Err(BadAnswer::NotServing("SERVICE_UNKNOWN"))),
            (&[8, 0x81, 1], Err(BadAnswer::NotServing("a status that nobody knows"))),
            (&[8], Err(BadAnswer::NotGrpc)),
            (&[0x12, 9, 8, 1], Err(BadAnswer::NotGrpc)),
            (&[0x13, 8, 1], Err(BadAnswer::NotGrpc)),
            (&[0x0d, 1, 0, 0, 0], Err(BadAnswer::NotGrpc)),
            (&[8, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1], Err(BadAnswer::NotGrpc)),
        ] {
            assert_eq!(judge(&body(message)), expected, "{message:?}");
        }
        for broken in [&[][..], &[0, 0, 0, 0], &[1, 0, 0, 0, 2, 8, 1], &[0, 0, 0, 0, 3, 8, 1], &[0, 0, 0, 0, 1, 8, 1]] {
            assert_eq!(judge(broken), Err(BadAnswer::NotGrpc), "{broken:?}");
        }
    }
}
