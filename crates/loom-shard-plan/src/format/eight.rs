//! Decimal numbers and quoted texts, eight bytes at a step.
//!
//! Lengths of numbers and of keys follow no pattern that a processor could foresee, so a loop that
//! ends where they end costs more than all the arithmetic here.

const ONES: u64 = u64::MAX / 255;
const HIGH: u64 = ONES * 0x80;

/// The number that `bytes` start with, and how many digits it has: 0 if it starts with none.
///
/// `None` for a number beyond 64 bits.
#[inline]
pub(super) fn decimal(bytes: &[u8]) -> (Option<u64>, usize) {
    if let Some(chunk) = bytes.first_chunk() {
        let digits = u64::from_le_bytes(*chunk) ^ (ONES * u64::from(b'0'));
        // A byte above 9 gets its highest bit. A carry goes only to bytes behind the first of them.
        let others = (digits.wrapping_add(ONES * 0x76) | digits) & HIGH;
        let len = others.trailing_zeros() / 8;
        if len == 0 {
            return (Some(0), 0);
        }
        if len < 8 {
            return (Some(eight_digits(digits << (64 - 8 * len))), len as usize);
        }
    }
    digit_by_digit(bytes)
}

/// The number whose digits are these bytes, the most significant in the lowest byte: neighbours are
/// joined to pairs, pairs to fours and fours to the number.
const fn eight_digits(digits: u64) -> u64 {
    const EVERY_FOURTH: u64 = 0x0000_00ff_0000_00ff;
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let high = (pairs & EVERY_FOURTH).wrapping_mul(100 + (1_000_000 << 32));
    let low = (pairs >> 16 & EVERY_FOURTH).wrapping_mul(1 + (10_000 << 32));
    high.wrapping_add(low) >> 32
}

#[cold]
fn digit_by_digit(bytes: &[u8]) -> (Option<u64>, usize) {
    let len = bytes
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let number = bytes.iter().take(len).try_fold(0_u64, |number, digit| {
        number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    });
    (number, len)
}

/// How many bytes come before the first that ends or interrupts a quoted text: a quote, a backslash or
/// a control character.
#[inline]
pub(super) fn plain(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        let word = u64::from_le_bytes(*chunk);
        let is_zero = |word: u64| word.wrapping_sub(ONES) & !word;
        let special = is_zero(word ^ (ONES * u64::from(b'"')))
            | is_zero(word ^ (ONES * u64::from(b'\\')))
            // Below a space.
            | word.wrapping_sub(ONES * 0x20) & !word;
        let special = special & HIGH;
        if special != 0 {
            return at + (special.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    let special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..b' ');
    at + rest.iter().position(special).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{decimal, digit_by_digit, plain};

    proptest! {
        #[test]
        fn a_number_is_what_its_digits_say(number: u64, digits in 0..20_usize, rest: Vec<u8>) {
            let mut text = number.to_string();
            text.truncate(digits);
            let mut bytes = text.into_bytes();
            bytes.extend(rest);
            prop_assert_eq!(decimal(&bytes), digit_by_digit(&bytes));
        }

        #[test]
        fn every_short_number_is_read(number in 0..100_000_000_u64, end in "[^0-9].{0,8}") {
            let digits = number.to_string();
            let text = format!("{digits}{end}");
            prop_assert_eq!(decimal(text.as_bytes()), (Some(number), digits.len()));
        }

        #[test]
        fn a_plain_text_ends_at_the_first_byte_that_is_not_plain(bytes: Vec<u8>) {
            let printable: Vec<u8> = bytes.iter().map(|byte| byte % 96 + 32).collect();
            for bytes in [bytes, printable] {
                let is_special = |byte: &u8| *byte < b' ' || *byte == b'"' || *byte == b'\\';
                let model = bytes.iter().position(is_special).unwrap_or(bytes.len());
                prop_assert_eq!(plain(&bytes), model);
            }
        }
    }

    #[test]
    fn a_number_beyond_64_bits_is_none() {
        assert_eq!(decimal(b"18446744073709551615"), (Some(u64::MAX), 20));
        assert_eq!(decimal(b"18446744073709551616 "), (None, 20));
        assert_eq!(decimal(b""), (Some(0), 0));
        assert_eq!(decimal(b"x1"), (Some(0), 0));
    }
}
