//! A host that authenticates, honestly and otherwise.

use nvme::authentication::{
    AuthenticationFailure, AuthenticationHash, AuthenticationReply, ControllerMessage, DhGroup, HostMessage,
    Negotiation,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::hash::{Exchanged, augmented};
use super::*;

const HOST: &str = "nqn.2014-08.org.example:host";
const SUBSYSTEM: &str = "nqn.2014-08.org.example:subsystem";

fn stream(seed: u64) -> impl Entropy {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    move |bytes: &mut [u8]| {
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
    }
}

fn secret(byte: u8) -> Secret {
    use base64::Engine;
    let mut key = vec![byte; 32];
    key.extend(crc32fast::hash(&key).to_le_bytes());
    let text = base64::prelude::BASE64_STANDARD.encode(key);
    Secret::parse(&format!("DHHC-1:01:{text}:")).unwrap()
}

fn session(controller: Option<Secret>) -> Session {
    Session::new(HostCredentials::new(HOST, secret(1), controller), SUBSYSTEM.to_owned())
}

/// What a host remembers of a transaction.
struct Host {
    key: Vec<u8>,
    entropy: Box<dyn Entropy>,
    transaction: u16,
    hash: AuthenticationHash,
    shared: Vec<u8>,
}

impl Host {
    fn new(secret: &Secret) -> Self {
        let (key, entropy) = (secret.key_of(HOST), Box::new(stream(9)));
        Self { key, entropy, transaction: 7, hash: AuthenticationHash::Sha256, shared: Vec::new() }
    }

    fn offer(&self, hash: AuthenticationHash, group: DhGroup) -> Negotiation {
        Negotiation { transaction: self.transaction, secure_channel: 0, hashes: vec![hash], groups: vec![group] }
    }

    /// Sends an offer and fetches the challenge.
    fn negotiate(&mut self, session: &mut Session, offer: Negotiation) -> ControllerMessage {
        self.send(session, &HostMessage::Negotiate(offer));
        fetch(session).0
    }

    fn send(&mut self, session: &mut Session, message: &HostMessage) {
        assert_eq!(session.send(&message.to_bytes(), &mut stream(5)), Sent::Accepted);
    }

    /// The reply to a challenge.
    fn reply(&mut self, message: &ControllerMessage, asked: Option<Vec<u8>>) -> AuthenticationReply {
        let ControllerMessage::Challenge { transaction, hash, group, sequence, challenge, exponential } = message
        else {
            panic!("no challenge: {message:?}");
        };
        self.hash = *hash;
        let exchange = Exchange::new(*group, &mut *self.entropy);
        self.shared = exchange.as_ref().map(|exchange| exchange.shared(exponential).unwrap()).unwrap_or_default();
        let exchanged = Exchanged {
            sequence: *sequence,
            transaction: *transaction,
            secure_channel: 0,
            host: HOST,
            subsystem: SUBSYSTEM,
        };
        AuthenticationReply {
            transaction: *transaction,
            response: exchanged.host_response(*hash, &self.key, &augmented(*hash, &self.shared, challenge)),
            challenge: asked,
            sequence: 99,
            exponential: exchange.map(|exchange| exchange.public()).unwrap_or_default(),
        }
    }
}

/// Fetches a message; the second value says that it is a failure.
fn fetch(session: &mut Session) -> (ControllerMessage, bool) {
    let received = session.receive();
    (ControllerMessage::parse(&received.message).unwrap(), received.failed)
}

fn failed(session: &mut Session, expected: AuthenticationFailure) {
    assert!(!session.is_authenticated());
    let (message, last) = fetch(session);
    assert!(
        last && matches!(message, ControllerMessage::Failure1 { failure, .. } if failure == expected),
        "{message:?}"
    );
    assert!(!session.is_authenticated());
}

#[test]
fn one_way_with_every_hash() {
    for hash in [AuthenticationHash::Sha256, AuthenticationHash::Sha384, AuthenticationHash::Sha512] {
        for group in [DhGroup::Null, DhGroup::Ffdhe2048] {
            let (mut session, mut host) = (session(None), Host::new(&secret(1)));
            let offer = host.offer(hash, group);
            let challenge = host.negotiate(&mut session, offer);
            assert!(!session.is_authenticated());
            let reply = host.reply(&challenge, None);
            host.send(&mut session, &HostMessage::Reply(reply));
            assert!(!session.is_authenticated(), "success is not fetched yet");
            let (message, last) = fetch(&mut session);
            assert!(!last && matches!(message, ControllerMessage::Success1 { response: None, .. }), "{message:?}");
            assert!(session.is_authenticated());
        }
    }
}

#[test]
fn both_ways_and_again() {
    let controller = secret(2);
    let (mut session, mut host) = (session(Some(controller.clone())), Host::new(&secret(1)));
    for round in 0..3_u8 {
        host.transaction = round.into();
        let offer = host.offer(AuthenticationHash::Sha384, DhGroup::Ffdhe2048);
        let challenge = host.negotiate(&mut session, offer);
        assert_eq!(session.is_authenticated(), round > 0, "the queue stays usable while it is done again");
        let asked = vec![round; 48];
        let reply = host.reply(&challenge, Some(asked.clone()));
        host.send(&mut session, &HostMessage::Reply(reply));
        let (message, _) = fetch(&mut session);
        let ControllerMessage::Success1 { response: Some(response), transaction, .. } = message else {
            panic!("{message:?}");
        };
        let exchanged = Exchanged { sequence: 99, transaction, secure_channel: 0, host: HOST, subsystem: SUBSYSTEM };
        let key = controller.key_of(SUBSYSTEM);
        assert_eq!(
            response,
            exchanged.controller_response(host.hash, &key, &augmented(host.hash, &host.shared, &asked))
        );
        host.send(&mut session, &HostMessage::Success2 { transaction });
        assert!(session.is_authenticated());
    }
    // A host that does not believe the controller.
    let message = HostMessage::Failure2 { transaction: 2, explanation: 1 };
    assert_eq!(session.send(&message.to_bytes(), &mut stream(5)), Sent::Over);
    assert!(!session.is_authenticated());
}

#[test]
fn wrong_answers_fail() {
    let offer = |host: &Host| host.offer(AuthenticationHash::Sha256, DhGroup::Ffdhe2048);
    let run = |wrong: &dyn Fn(&mut AuthenticationReply), expected| {
        let (mut session, mut host) = (session(None), Host::new(&secret(1)));
        let offer = offer(&host);
        let challenge = host.negotiate(&mut session, offer);
        let mut reply = host.reply(&challenge, None);
        wrong(&mut reply);
        host.send(&mut session, &HostMessage::Reply(reply));
        failed(&mut session, expected);
    };
    run(&|reply| reply.response[31] ^= 1, AuthenticationFailure::Failed);
    run(&|reply| reply.exponential[255] ^= 1, AuthenticationFailure::Failed);
    run(&|reply| reply.transaction += 1, AuthenticationFailure::IncorrectMessage);
    run(&|reply| reply.response = Vec::new(), AuthenticationFailure::IncorrectPayload);
    run(&|reply| reply.exponential = Vec::new(), AuthenticationFailure::IncorrectPayload);
    run(&|reply| reply.exponential.fill(0), AuthenticationFailure::IncorrectPayload);
    // The controller has no secret of its own to answer with.
    run(&|reply| reply.challenge = Some(vec![3; 32]), AuthenticationFailure::Failed);

    // Another host's key.
    let (mut session, mut host) = (session(None), Host::new(&secret(3)));
    let offer = offer(&host);
    let challenge = host.negotiate(&mut session, offer);
    let reply = host.reply(&challenge, None);
    host.send(&mut session, &HostMessage::Reply(reply));
    failed(&mut session, AuthenticationFailure::Failed);
}

#[test]
fn a_reply_is_good_once() {
    let (mut session, mut host) = (session(None), Host::new(&secret(1)));
    let mut challenges = Vec::new();
    let mut first = None;
    for _ in 0..2 {
        let offer = host.offer(AuthenticationHash::Sha256, DhGroup::Null);
        // The controller's entropy repeats itself here; the sequence number does not.
        let challenge = host.negotiate(&mut session, offer);
        let reply = first.get_or_insert_with(|| host.reply(&challenge, None)).clone();
        challenges.push(challenge);
        host.send(&mut session, &HostMessage::Reply(reply));
        let (_, last) = fetch(&mut session);
        assert_eq!(last, challenges.len() == 2);
    }
    assert_ne!(challenges[0], challenges[1]);
    assert!(!session.is_authenticated());
}

#[test]
fn its_own_challenge_is_not_answered() {
    // Host and controller share one secret, which the specification forbids.
    let (mut session, mut host) = (session(Some(secret(1))), Host::new(&secret(1)));
    let offer = host.offer(AuthenticationHash::Sha256, DhGroup::Null);
    let message = host.negotiate(&mut session, offer);
    let ControllerMessage::Challenge { challenge, .. } = &message else { panic!("{message:?}") };
    let reply = host.reply(&message, Some(challenge.clone()));
    host.send(&mut session, &HostMessage::Reply(reply));
    failed(&mut session, AuthenticationFailure::Failed);
}

#[test]
fn offers_that_do_not_suit() {
    let host = Host::new(&secret(1));
    let good = host.offer(AuthenticationHash::Sha256, DhGroup::Null);
    for (offer, expected) in [
        (Negotiation { secure_channel: 1, ..good.clone() }, AuthenticationFailure::SecureChannelMismatch),
        (Negotiation { hashes: Vec::new(), ..good.clone() }, AuthenticationFailure::HashNotUsable),
        (Negotiation { groups: Vec::new(), ..good.clone() }, AuthenticationFailure::GroupNotUsable),
    ] {
        let mut session = session(None);
        session.send(&HostMessage::Negotiate(offer).to_bytes(), &mut stream(5));
        failed(&mut session, expected);
    }
    // The best of what is offered.
    let (mut session, mut host) = (session(None), Host::new(&secret(1)));
    let groups = vec![DhGroup::Null, DhGroup::Ffdhe4096, DhGroup::Ffdhe3072];
    let hashes = vec![AuthenticationHash::Sha512, AuthenticationHash::Sha384];
    let message = host.negotiate(&mut session, Negotiation { hashes, groups, ..good });
    let ControllerMessage::Challenge { hash, group, .. } = message else { panic!("{message:?}") };
    assert_eq!((hash, group), (AuthenticationHash::Sha384, DhGroup::Ffdhe3072));
}

#[test]
fn nothing_to_fetch_is_a_failure() {
    let mut fresh = session(None);
    failed(&mut fresh, AuthenticationFailure::IncorrectMessage);
    let mut early = session(None);
    early.send(&HostMessage::Success2 { transaction: 0 }.to_bytes(), &mut stream(5));
    failed(&mut early, AuthenticationFailure::IncorrectMessage);
}

/// What an attacker without the secret can do.
#[derive(Clone, Debug)]
enum Attack {
    Bytes(Vec<u8>),
    Negotiate(bool),
    Reply { transaction: u16, byte: u8, asked: bool },
    Success2(u16),
    Fetch,
}

fn attack() -> impl Strategy<Value = Attack> {
    prop_oneof![
        vec(any::<u8>(), 0..80).prop_map(Attack::Bytes),
        any::<bool>().prop_map(Attack::Negotiate),
        (6..9_u16, any::<u8>(), any::<bool>()).prop_map(|(transaction, byte, asked)| Attack::Reply {
            transaction,
            byte,
            asked
        }),
        (6..9_u16).prop_map(Attack::Success2),
        Just(Attack::Fetch),
        Just(Attack::Fetch),
    ]
}

proptest! {
    /// Without the secret, no order of messages authenticates a host.
    #[test]
    fn no_way_in_without_the_secret(attacks in vec(attack(), 0..30)) {
        let (mut session, host) = (session(Some(secret(2))), Host::new(&secret(3)));
        for attack in attacks {
            let message = match attack {
                Attack::Bytes(bytes) => bytes,
                Attack::Negotiate(good) => {
                    let mut offer = host.offer(AuthenticationHash::Sha256, DhGroup::Null);
                    offer.secure_channel = u8::from(!good);
                    HostMessage::Negotiate(offer).to_bytes()
                }
                Attack::Reply { transaction, byte, asked } => {
                    let challenge = asked.then(|| vec![!byte; 32]);
                    let (response, exponential) = (vec![byte; 32], Vec::new());
                    HostMessage::Reply(AuthenticationReply { transaction, response, challenge, sequence: 1, exponential })
                        .to_bytes()
                }
                Attack::Success2(transaction) => HostMessage::Success2 { transaction }.to_bytes(),
                Attack::Fetch => {
                    let _ = session.receive();
                    prop_assert!(!session.is_authenticated());
                    continue;
                }
            };
            let _ = session.send(&message, &mut stream(5));
            prop_assert!(!session.is_authenticated());
        }
    }
}
