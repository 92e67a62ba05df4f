//! As much of the MySQL protocol as a proxy has to know: where packets and replies end, and which question of dlock a
//! request is. Pure, no socket.
//!
//! A client that leaves out the EOF packets (`CLIENT_DEPRECATE_EOF`) is not understood; dlock's driver sends them.

/// A packet's header: three bytes of length, one of sequence number.
const HEADER: usize = 4;

/// The bit of a reply's status flags that says that another reply follows to the same request.
const MORE_RESULTS: u16 = 8;

/// What a request asks, as far as dlock's questions go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Attempt,
    Renew,
    Release,
    /// Tells of the end before the release.
    Notice,
    /// Takes a place in the line.
    Queue,
    /// Takes a place in the line and waits for the gate.
    Stand,
    /// Reads only: what the row and the line are.
    Look,
    /// Any other query.
    Other,
}

/// A packet that the server has to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Query(String),
    Quit,
    /// Any other, by its number.
    Other(u8),
}

impl Request {
    /// The request that begins with `payload`.
    pub(crate) fn of(payload: &[u8]) -> Self {
        match payload {
            [1] => Self::Quit,
            [3, text @ ..] => Self::Query(String::from_utf8_lossy(text).into_owned()),
            other => Self::Other(other.first().copied().unwrap_or(u8::MAX)),
        }
    }

    /// Which question it is; none if it is no query.
    pub(crate) fn kind(&self) -> Option<Kind> {
        let Self::Query(text) = self else {
            return None;
        };
        if let Some(kind) = by_update(text) {
            return Some(kind);
        }
        if text.contains("'dlock-notice:") {
            // A look may wait for a notice first. Giving notice reads no table.
            return Some(match text.contains("FROM dlock_") {
                true => Kind::Look,
                false => Kind::Notice,
            });
        }
        let marks = [
            ("GET_LOCK(", Kind::Stand),
            ("INSERT INTO dlock_waiter", Kind::Queue),
            ("FROM dlock_", Kind::Look),
        ];
        let found = marks.into_iter().find(|(mark, _)| text.contains(mark));
        Some(found.map_or(Kind::Other, |(_, kind)| kind))
    }
}

/// The kind of a query that changes a record, by the columns that its first UPDATE of `dlock_lock` sets. The order of
/// the columns does not matter. An operator's change is none of these kinds.
fn by_update(text: &str) -> Option<Kind> {
    let (_, update) = text.split_once("UPDATE dlock_lock SET ")?;
    let columns = update.split(" WHERE ").next().unwrap_or(update);
    let kinds = [
        ("acquired_at=", Kind::Attempt),
        ("released_at=", Kind::Release),
        ("operator=", Kind::Other),
        ("renewals=renewals+1", Kind::Renew),
    ];
    let found = kinds.into_iter().find(|(mark, _)| columns.contains(mark));
    found.map(|(_, kind)| kind)
}

/// A reply that is the server's error `code` with this text, for [`Fault::Answer`](super::Fault::Answer) and
/// [`Fault::AnswerAfter`](super::Fault::AnswerAfter).
pub(crate) fn error_packet(code: u16, text: &str) -> Vec<u8> {
    let mut payload = vec![0xff];
    payload.extend(code.to_le_bytes());
    payload.extend(b"#HY000");
    payload.extend(text.as_bytes());
    // The request is packet 0.
    packet(1, &payload)
}

/// A packet with these contents.
pub(crate) fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a small packet");
    let mut packet = length.to_le_bytes()[..3].to_vec();
    packet.push(number);
    packet.extend_from_slice(payload);
    packet
}

/// Takes the first whole packet, with its header, out of `bytes`; none if there is none yet.
pub(crate) fn take(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let [low, middle, high, ..] = bytes[..] else {
        return None;
    };
    let end = HEADER + u32::from_le_bytes([low, middle, high, 0]) as usize;
    (bytes.len() >= end).then(|| bytes.drain(..end).collect())
}

/// A packet's sequence number.
pub(crate) fn number(packet: &[u8]) -> u8 {
    packet[3]
}

/// A packet without its header.
pub(crate) fn payload(packet: &[u8]) -> &[u8] {
    &packet[HEADER..]
}

/// Cuts whole packets apart, as a recorded reply has them.
pub(crate) fn packets(reply: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = reply.to_vec();
    std::iter::from_fn(|| take(&mut rest)).collect()
}

/// Where in the reply to a query the server is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Progress {
    /// Before the first packet of a result.
    #[default]
    Start,
    Columns,
    Rows,
}

impl Progress {
    /// Takes in the next packet; whether it is the last of the whole reply.
    pub(crate) fn ends_with(&mut self, payload: &[u8]) -> bool {
        let (next, status) = match (*self, payload) {
            (_, [0xff, ..]) => return true,
            (Self::Start, [0, rest @ ..]) => (Self::Start, Some(after_two_numbers(rest))),
            (Self::Start, _) => (Self::Columns, None),
            (Self::Columns, [0xfe, _, _, _, _]) => (Self::Rows, None),
            (Self::Rows, [0xfe, _, _, low, high]) => {
                (Self::Start, Some(u16::from_le_bytes([*low, *high])))
            }
            (same, _) => (same, None),
        };
        *self = next;
        status.is_some_and(|status| status & MORE_RESULTS == 0)
    }
}

/// The status flags of an OK packet, which follow two numbers of variable length.
fn after_two_numbers(mut rest: &[u8]) -> u16 {
    for _ in 0..2 {
        let skip = match rest.first() {
            Some(0xfc) => 3,
            Some(0xfd) => 4,
            Some(0xfe) => 9,
            _ => 1,
        };
        rest = rest.get(skip..).unwrap_or_default();
    }
    match rest {
        [low, high, ..] => u16::from_le_bytes([*low, *high]),
        _ => 0,
    }
}
