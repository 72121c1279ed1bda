//! Diffie-Hellman over the groups of RFC 7919.

use crypto_bigint::modular::{BoxedMontyForm, BoxedMontyParams};
use crypto_bigint::{BoxedUint, Odd, Resize};
use nvme::authentication::DhGroup;

use super::ffdhe_primes::{FFDHE2048, FFDHE3072, FFDHE4096, FFDHE6144, FFDHE8192};
use crate::subsystem::config::Entropy;

/// Size of a private exponent in bytes. RFC 7919, section 5.2, wants at least 400
/// bits in the largest group.
const EXPONENT_BYTES: usize = 64;
const EXPONENT_BITS: u32 = EXPONENT_BYTES as u32 * 8;

/// One side's half of an exchange. Nothing here branches or indexes on the exponent.
pub(super) struct Exchange {
    group: DhGroup,
    parameters: BoxedMontyParams,
    exponent: BoxedUint,
}

impl Exchange {
    /// A new private exponent in `group`; `None` for the NULL group.
    pub(super) fn new(group: DhGroup, entropy: &mut dyn Entropy) -> Option<Self> {
        let parameters = parameters(group)?;
        let mut bytes = [0; EXPONENT_BYTES];
        entropy.fill(&mut bytes);
        // Never below 2^511: an exponent of too few bits would be weak.
        bytes[0] |= 0x80;
        let exponent = BoxedUint::from_be_slice(&bytes, EXPONENT_BITS).ok()?;
        Some(Self { group, parameters, exponent })
    }

    fn power(&self, base: BoxedUint) -> Vec<u8> {
        let power = BoxedMontyForm::new(base, &self.parameters).pow_bounded_exp(&self.exponent, EXPONENT_BITS);
        power.retrieve().to_be_bytes().into_vec()
    }

    /// The value for the other side: as many bytes as the group's prime.
    pub(super) fn public(&self) -> Vec<u8> {
        let bits = self.group.bytes() as u32 * 8;
        self.power(BoxedUint::from(2_u8).resize(bits))
    }

    /// The secret shared with the owner of `public`, in as many bytes as the prime
    /// has. `None` for a value that no honest side sends: 0, 1, the prime less one,
    /// and what is not below the prime (RFC 7919, section 5.1).
    pub(super) fn shared(&self, public: &[u8]) -> Option<Vec<u8>> {
        if public.len() != self.group.bytes() {
            return None;
        }
        let bits = self.group.bytes() as u32 * 8;
        let value = BoxedUint::from_be_slice(public, bits).ok()?;
        let one = BoxedUint::from(1_u8).resize(bits);
        let largest = self.parameters.modulus().as_ref().wrapping_sub(&one);
        (value > one && value < largest).then(|| self.power(value))
    }
}

fn parameters(group: DhGroup) -> Option<BoxedMontyParams> {
    let prime = match group {
        DhGroup::Null => return None,
        DhGroup::Ffdhe2048 => FFDHE2048,
        DhGroup::Ffdhe3072 => FFDHE3072,
        DhGroup::Ffdhe4096 => FFDHE4096,
        DhGroup::Ffdhe6144 => FFDHE6144,
        DhGroup::Ffdhe8192 => FFDHE8192,
    };
    let prime = Option::from(BoxedUint::from_be_hex(prime, group.bytes() as u32 * 8))?;
    Some(BoxedMontyParams::new(Option::from(Odd::new(prime))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: [DhGroup; 5] =
        [DhGroup::Ffdhe2048, DhGroup::Ffdhe3072, DhGroup::Ffdhe4096, DhGroup::Ffdhe6144, DhGroup::Ffdhe8192];

    fn stream(seed: u8) -> impl Entropy {
        let mut state = seed;
        move |bytes: &mut [u8]| {
            for byte in bytes {
                state = state.wrapping_mul(181).wrapping_add(97);
                *byte = state;
            }
        }
    }

    #[test]
    fn both_sides_share_a_secret() {
        for group in GROUPS.into_iter().take(2) {
            let (one, other) =
                (Exchange::new(group, &mut stream(1)).unwrap(), Exchange::new(group, &mut stream(2)).unwrap());
            let secret = one.shared(&other.public()).unwrap();
            assert_eq!(secret.len(), group.bytes());
            assert_eq!(Some(&secret), other.shared(&one.public()).as_ref());
            let third = Exchange::new(group, &mut stream(3)).unwrap();
            assert_ne!(Some(secret), third.shared(&one.public()));
        }
        assert!(Exchange::new(DhGroup::Null, &mut stream(1)).is_none());
    }

    #[test]
    fn weak_values_are_refused() {
        let exchange = Exchange::new(DhGroup::Ffdhe2048, &mut stream(1)).unwrap();
        let number = |low: u8| {
            let mut bytes = vec![0; 256];
            bytes[255] = low;
            bytes
        };
        let prime = exchange.parameters.modulus().as_ref().to_be_bytes().into_vec();
        let mut less_one = prime.clone();
        less_one[255] -= 1;
        let mut less_two = prime.clone();
        less_two[255] -= 2;
        for (value, valid) in [
            (number(0), false),
            (number(1), false),
            (number(2), true),
            (less_two, true),
            (less_one, false),
            (prime, false),
            (vec![0xff; 256], false),
            (vec![2; 255], false),
            (Vec::new(), false),
        ] {
            assert_eq!(exchange.shared(&value).is_some(), valid);
        }
    }

    /// The primes are those of somebody else's library.
    #[test]
    fn primes_are_openssls() {
        for group in GROUPS {
            let name = format!("group:ffdhe{}", group.bytes() * 8);
            let arguments = ["genpkey", "-algorithm", "DH", "-pkeyopt", &name, "-text"];
            let output = match std::process::Command::new("openssl").args(arguments).output() {
                Ok(output) if output.status.success() => output,
                _ => {
                    println!("skipped: openssl is not installed, or knows no {name}");
                    return;
                }
            };
            let text = String::from_utf8(output.stdout).unwrap();
            // With named parameters the text gives the group's name; the key's
            // public value must then lie in our group: y^q = 1 with q = (p-1)/2.
            let public = text.split("public-key:").nth(1).unwrap().split("GROUP").next().unwrap();
            let hex = public.chars().filter(char::is_ascii_hexdigit).collect::<String>();
            let digits = group.bytes() * 2;
            let hex = format!("{hex:0>digits$}");
            let hex = &hex[hex.len() - digits..];
            let value = Option::<BoxedUint>::from(BoxedUint::from_be_hex(hex, group.bytes() as u32 * 8)).unwrap();
            let parameters = parameters(group).unwrap();
            let half = parameters.modulus().as_ref().clone() >> 1;
            let power = BoxedMontyForm::new(value, &parameters).pow(&half).retrieve();
            assert_eq!(power, BoxedUint::from(1_u8).resize(group.bytes() as u32 * 8), "{name}");
        }
    }
}
