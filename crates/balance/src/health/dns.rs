//! Questions to name servers and their answers (RFC 1035).

use std::net::IpAddr;

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};

use super::bad_answer::BadAnswer;
use super::check::{DnsCheck, RecordType};

/// Bytes of a message over UDP that says nothing of other limits.
pub const MESSAGE_MAX: usize = 512;

impl DnsCheck {
    /// Whether names are as those of DNS: at most 255 bytes in labels of at most 63.
    pub fn is_name(text: &str) -> bool {
        !text.is_empty() && text.is_ascii() && Name::new(text.trim_end_matches('.')).is_ok()
    }

    fn question(&self) -> Option<Question<'_>> {
        let name = Name::new(self.name.trim_end_matches('.')).ok()?;
        let kind = match self.record {
            RecordType::A => TYPE::A,
            RecordType::Aaaa => TYPE::AAAA,
            RecordType::Cname => TYPE::CNAME,
            RecordType::Mx => TYPE::MX,
            RecordType::Ns => TYPE::NS,
            RecordType::Ptr => TYPE::PTR,
            RecordType::Soa => TYPE::SOA,
            RecordType::Srv => TYPE::SRV,
            RecordType::Txt => TYPE::TXT,
        };
        Some(Question::new(name, QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN), false))
    }

    /// The question, with this number. `None` if the name is none of DNS.
    pub fn query(&self, id: u16) -> Option<Vec<u8>> {
        let mut packet = Packet::new_query(id);
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
        packet.questions.push(self.question()?);
        packet.build_bytes_vec().ok()
    }

    /// Whether it is the answer of a server that is well to the question with this number.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn judge(&self, id: u16, answer: &[u8]) -> Result<(), BadAnswer> {
        let packet = Packet::parse(answer).map_err(|_| BadAnswer::NotDns)?;
        if packet.id() != id || !packet.has_flags(PacketFlag::RESPONSE) {
            return Err(BadAnswer::NotDns);
        }
        if packet.rcode() != RCODE::NoError {
            return Err(BadAnswer::Dns(name_of(packet.rcode())));
        }
        // One that could not read the question need not repeat it; this one could.
        let own = self.question().ok_or(BadAnswer::NotDns)?;
        let [asked] = packet.questions.as_slice() else { return Err(BadAnswer::NotDns) };
        if (&asked.qname, asked.qtype) != (&own.qname, own.qtype) {
            return Err(BadAnswer::NotDns);
        }
        let is_wanted = |wanted: IpAddr| {
            packet.answers.iter().any(|record| match (&record.rdata, wanted) {
                (RData::A(a), IpAddr::V4(wanted)) => a.address == wanted.to_bits(),
                (RData::AAAA(a), IpAddr::V6(wanted)) => a.address == wanted.to_bits(),
                _ => false,
            })
        };
        if self.address.is_none_or(is_wanted) { Ok(()) } else { Err(BadAnswer::NoAddress) }
    }
}

/// As name servers' tools write it (IANA's registry of RCODEs).
fn name_of(code: RCODE) -> &'static str {
    match code {
        RCODE::NoError => "NOERROR",
        RCODE::FormatError => "FORMERR",
        RCODE::ServerFailure => "SERVFAIL",
        RCODE::NameError => "NXDOMAIN",
        RCODE::NotImplemented => "NOTIMP",
        RCODE::Refused => "REFUSED",
        RCODE::YXDOMAIN => "YXDOMAIN",
        RCODE::YXRRSET => "YXRRSET",
        RCODE::NXRRSET => "NXRRSET",
        RCODE::NOTAUTH => "NOTAUTH",
        RCODE::NOTZONE => "NOTZONE",
        _ => "an error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use simple_dns::ResourceRecord;
    use simple_dns::rdata::{A, AAAA};

    fn check(record: RecordType, address: Option<&str>) -> DnsCheck {
        let address = address.map(|address| address.parse().expect("an address"));
        DnsCheck { name: "www.example".to_owned(), record, address }
    }

    /// An answer with these addresses to a question.
    fn answer(query: &[u8], code: RCODE, addresses: &[&str]) -> Vec<u8> {
        let mut packet = Packet::parse(query).expect("a question").into_reply();
        *packet.rcode_mut() = code;
        let name = || Name::new("www.example").expect("a name");
        packet.answers.extend(addresses.iter().map(|address| {
            let data = match address.parse().expect("an address") {
                IpAddr::V4(address) => RData::A(A::from(address)),
                IpAddr::V6(address) => RData::AAAA(AAAA::from(address)),
            };
            ResourceRecord::new(name(), CLASS::IN, 60, data)
        }));
        packet.build_bytes_vec().expect("it is short")
    }

    #[test]
    fn an_answer_is_of_its_question_without_an_error_and_has_the_address() {
        let own = check(RecordType::A, Some("10.0.0.7"));
        let query = own.query(7).expect("a name");
        assert!(query.len() <= MESSAGE_MAX);
        let good = answer(&query, RCODE::NoError, &["10.0.0.6", "10.0.0.7"]);
        assert_eq!(own.judge(7, &good), Ok(()));
        assert_eq!(own.judge(8, &good), Err(BadAnswer::NotDns));
        assert_eq!(own.judge(7, &query), Err(BadAnswer::NotDns));
        assert_eq!(check(RecordType::Aaaa, None).judge(7, &good), Err(BadAnswer::NotDns));
        assert_eq!(own.judge(7, &answer(&query, RCODE::NoError, &["10.0.0.6"])), Err(BadAnswer::NoAddress));
        assert_eq!(own.judge(7, &answer(&query, RCODE::NoError, &["::10.0.0.7"])), Err(BadAnswer::NoAddress));
        assert_eq!(own.judge(7, &answer(&query, RCODE::NameError, &[])), Err(BadAnswer::Dns("NXDOMAIN")));
        assert_eq!(check(RecordType::A, None).judge(7, &answer(&query, RCODE::NoError, &[])), Ok(()));
        let six = check(RecordType::Aaaa, Some("fd00::7"));
        let query = six.query(9).expect("a name");
        assert_eq!(six.judge(9, &answer(&query, RCODE::NoError, &["fd00::7"])), Ok(()));
        for length in 0..good.len() {
            assert!(own.judge(7, &good[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn names_are_those_of_dns() {
        for (name, expected) in [
            ("www.example", true),
            ("www.example.", true),
            ("_dns._udp.example", true),
            ("", false),
            ("b\u{fc}cher.example", false),
            ("a".repeat(64).as_str(), false),
            ("abc.".repeat(70).as_str(), false),
        ] {
            assert_eq!(DnsCheck::is_name(name), expected, "{name}");
        }
    }
}
