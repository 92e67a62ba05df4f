//! The part of the MySQL protocol that the proxy parses: the ends of packets and responses, and the kind of each dlock
//! request. These functions are pure and use no socket.
//!
//! Responses without EOF packets (`CLIENT_DEPRECATE_EOF`) are not supported, because dlock's driver does not negotiate
//! them.

/// The length of a packet header: three bytes for the payload length and one byte for the sequence number.
const HEADER: usize = 4;

/// The status flag that is set if another result of the same request follows.
const MORE_RESULTS: u16 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    TryAcquire,
    Renew,
    Release,
    /// Sends the hand-off before the release.
    Handoff,
    Enqueue,
    /// Adds a queue entry and waits for the queue lock.
    WaitTurn,
    /// Reads the record and the queue.
    Get,
    Other,
}

/// A packet that starts a command of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Query(String),
    Quit,
    Other(u8),
}

impl Request {
    pub fn of(payload: &[u8]) -> Self {
        match payload {
            [1] => Self::Quit,
            [3, text @ ..] => Self::Query(String::from_utf8_lossy(text).into_owned()),
            other => Self::Other(other.first().copied().unwrap_or(u8::MAX)),
        }
    }

    /// Returns the kind of the request. None if the request is not a query.
    pub fn kind(&self) -> Option<Kind> {
        let Self::Query(text) = self else {
            return None;
        };
        if let Some(kind) = by_update(text) {
            return Some(kind);
        }
        let marks = [
            ("GET_LOCK(CONCAT('dlock-handoff:", Kind::Handoff),
            ("GET_LOCK(", Kind::WaitTurn),
            ("INSERT INTO dlock_waiter", Kind::Enqueue),
            ("FROM dlock_", Kind::Get),
        ];
        let found = marks.into_iter().find(|(mark, _)| text.contains(mark));
        Some(found.map_or(Kind::Other, |(_, kind)| kind))
    }
}

/// Returns the kind of a query that changes a record or a slot, derived from the columns in its first UPDATE of
/// `dlock_lock` or, if this shows no kind, of `dlock_slot`. The order of the columns does not matter. None means that
/// the query has no such UPDATE, or that its columns match no kind. A change by an operator is [`Kind::Other`].
fn by_update(text: &str) -> Option<Kind> {
    let kinds = [
        ("renewals=0,", Kind::TryAcquire),
        // A renewal that writes a lost grant again sets a number above zero.
        ("renewals=", Kind::Renew),
        ("released_at=", Kind::Release),
        ("operator=", Kind::Other),
    ];
    let tables = ["UPDATE dlock_lock SET ", "UPDATE dlock_slot SET "];
    tables.into_iter().find_map(|table| {
        let (_, update) = text.split_once(table)?;
        // A column may be set to the result of a subquery, so the first WHERE may not be the one of the UPDATE.
        let columns = update.split(';').next().unwrap_or(update);
        let found = kinds.into_iter().find(|(mark, _)| columns.contains(mark));
        found.map(|(_, kind)| kind)
    })
}

/// Builds a response with the server error `code` and the message `text`, for [`Fault::Respond`](super::Fault::Respond)
/// and [`Fault::RespondAfter`](super::Fault::RespondAfter).
pub fn error_packet(code: u16, text: &str) -> Vec<u8> {
    // The request has sequence number 0, so the response has 1.
    error(1, code, &format!("#HY000{text}"))
}

/// Builds an error with this sequence number, which is 0 in place of a greeting.
pub(crate) fn error(number: u8, code: u16, text: &str) -> Vec<u8> {
    let payload = [&[0xff], &code.to_le_bytes()[..], text.as_bytes()];
    packet(number, &payload.concat())
}

pub fn packet(number: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("the packet is small");
    let mut packet = length.to_le_bytes()[..3].to_vec();
    packet.push(number);
    packet.extend_from_slice(payload);
    packet
}

/// Removes the first packet, including its header, from `bytes` and returns it. Returns None if the packet is
/// incomplete.
pub fn take(bytes: &mut Vec<u8>) -> Option<Vec<u8>> {
    let [low, middle, high, ..] = bytes[..] else {
        return None;
    };
    let end = HEADER + u32::from_le_bytes([low, middle, high, 0]) as usize;
    (bytes.len() >= end).then(|| bytes.drain(..end).collect())
}

pub fn number(packet: &[u8]) -> u8 {
    packet[3]
}

pub fn payload(packet: &[u8]) -> &[u8] {
    &packet[HEADER..]
}

/// Splits a recorded response into its packets.
pub fn packets(response: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = response.to_vec();
    std::iter::from_fn(|| take(&mut rest)).collect()
}

/// The parser's position in the server's response to a query.
#[derive(Clone, Copy, Debug, Default)]
pub enum Progress {
    /// Before the first packet of a result.
    #[default]
    Start,
    Columns,
    Rows,
}

impl Progress {
    /// Processes the next packet. Returns true if it is the last packet of the response.
    pub fn ends_with(&mut self, payload: &[u8]) -> bool {
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

/// Returns the status flags of an OK packet. In `rest`, two length-encoded integers precede the flags.
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
