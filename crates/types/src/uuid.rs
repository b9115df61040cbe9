//! UUIDs in text: 32 hexadecimal digits, with or without hyphens and braces.

/// Reads a UUID: a hyphen may stand behind any group of four digits.
pub(crate) fn parse(text: &str) -> Option<[u8; 16]> {
    let body = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let (mut uuid, mut digits, mut chars) = ([0_u8; 16], 0, body.chars().peekable());
    while digits < 32 {
        if digits > 0 && digits % 4 == 0 && chars.next_if_eq(&'-').is_some() && digits % 2 != 0 {
            return None;
        }
        let digit = chars.next()?.to_digit(16)? as u8;
        let byte = uuid.get_mut(digits / 2)?;
        *byte = *byte << 4 | digit;
        digits += 1;
    }
    chars.next().is_none().then_some(uuid)
}

/// The text of a UUID.
pub(crate) fn show(uuid: &[u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (n, byte) in uuid.iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_hyphens_and_braces_or_not() {
        let want = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for text in [
            want,
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        ] {
            assert_eq!(parse(text).map(|uuid| show(&uuid)).as_deref(), Some(want), "{text}");
        }
        for text in ["", "{a0eebc999c0b4ef8bb6d6bb9bd380a11", "a0e-ebc999c0b4ef8bb6d6bb9bd380a11"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
