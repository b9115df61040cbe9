//! Orders, cases and versions are those of PostgreSQL 18, where there is one (`cargo xtask peers`).

use std::fs;

use forebay_collation::{Collation, Definition, Provider, version_agrees};
use forebay_testkit::Dice;
use forebay_testkit::peer::{Peer, Postgres};

/// Letters that orders treat differently: cases, accents, marks of their own, punctuation, digits,
/// several scripts, letters that some languages have between or behind others.
const LETTERS: &str = concat!(
    "aAbBcCdDoOzZäÄåÅæÆöÖøØüßéèêñçłŁđðþıİiIjǆčćšžσςΣάωЖжЁё",
    "אבعفकखกขあアｱ漢字ﬁŉ-_ .,'’\"!?*$€+=<0123456789९\u{301}\u{308}\u{200d}😀",
);
const WORDS: usize = 3000;
const ICU: [&str; 12] =
    ["und", "en-US", "de", "de-AT", "sv", "da", "es", "tr", "lt", "cs", "ja", "hr"];
/// Tailored orders, which a new cluster does not have.
const TAILORED: [&str; 6] = [
    "de-u-co-phonebk",
    "und-u-kn",
    "und-u-kf-upper",
    "und-u-ka-shifted",
    "es-u-co-trad",
    "und-u-ks-level1-kc-true",
];

fn words() -> Vec<String> {
    let letters: Vec<char> = LETTERS.chars().collect();
    let mut dice = Dice::new(18);
    let mut word =
        || (0..dice.below(7)).map(|_| letters[dice.index(letters.len())]).collect::<String>();
    let mut words: Vec<String> = (0..WORDS).map(|_| word()).collect();
    words.sort();
    words.dedup();
    words
}

fn open(provider: Provider, locale: &str) -> Collation {
    let definition = Definition {
        name: locale,
        provider,
        locale,
        ctype: locale,
        rules: None,
        deterministic: true,
    };
    Collation::open(&definition).unwrap_or_else(|error| panic!("{error}"))
}

/// Both servers' orders of the words, and their cases.
fn compare(postgres: &Postgres<'_>, words: &[String], collation: &Collation, name: &str) {
    let mut sorted: Vec<&String> = words.iter().collect();
    sorted.sort_by(|a, b| collation.compare(a, b));
    let order = format!("SELECT w FROM words ORDER BY w COLLATE \"{name}\"");
    let theirs = postgres.query(&order);
    let differs = sorted.iter().zip(theirs.split('\n')).position(|(a, b)| a.as_str() != b);
    assert_eq!(differs, None, "{name}: {:?}", differs.map(|n| &sorted[n..(n + 2)]));
    assert_eq!(theirs.split('\n').count(), words.len());

    let cases = format!(
        "SELECT lower(w COLLATE \"{name}\") || '|' || upper(w COLLATE \"{name}\") \
         FROM words ORDER BY w COLLATE \"C\""
    );
    for (word, theirs) in words.iter().zip(postgres.query(&cases).split('\n')) {
        let ours = format!("{}|{}", collation.lower(word), collation.upper(word));
        assert_eq!(ours, theirs, "{word:?} in {name}");
    }
}

#[test]
fn orders_and_cases_are_those_of_postgresql() {
    let Some(peer) = Peer::find("orders_and_cases_are_those_of_postgresql") else { return };
    peer.init("data");
    let postgres = peer.start("data", "-c fsync=off");
    let words = words();
    fs::write(peer.outside("words"), words.join("\n") + "\n").expect("the words are written");
    postgres.query("CREATE TABLE words (w text)");
    postgres.query(&format!("COPY words FROM '{}'", peer.inside("words")));

    for locale in ICU {
        let version = "SELECT collversion FROM pg_collation WHERE collname";
        let version = postgres.query(&format!("{version} = '{locale}-x-icu'"));
        assert!(version_agrees(Provider::Icu, locale, Some(&version)), "{locale}: {version}");
        compare(&postgres, &words, &open(Provider::Icu, locale), &format!("{locale}-x-icu"));
    }
    for locale in TAILORED {
        let make = format!("CREATE COLLATION \"{locale}\" (provider = icu, locale = '{locale}')");
        postgres.query(&make);
        compare(&postgres, &words, &open(Provider::Icu, locale), locale);
    }
    for (name, locale) in [("pg_c_utf8", "C.UTF-8"), ("pg_unicode_fast", "PG_UNICODE_FAST")] {
        compare(&postgres, &words, &open(Provider::Builtin, locale), name);
    }
    compare(&postgres, &words, &Collation::c(), "C");
}

#[test]
fn each_letter_has_the_cases_of_the_builtin_provider() {
    let Some(peer) = Peer::find("each_letter_has_the_cases_of_the_builtin_provider") else {
        return;
    };
    peer.init("data");
    let postgres = peer.start("data", "-c fsync=off");
    for (name, locale) in [("pg_c_utf8", "C.UTF-8"), ("pg_unicode_fast", "PG_UNICODE_FAST")] {
        let collation = open(Provider::Builtin, locale);
        let letters = format!(
            "SELECT n || ' ' || lower(c COLLATE {name}) || ' ' || upper(c COLLATE {name}) \
             FROM (SELECT n, chr(n) c FROM generate_series(33, 195101) n \
             WHERE n NOT BETWEEN 55296 AND 57343) letters \
             WHERE lower(c COLLATE {name}) <> c OR upper(c COLLATE {name}) <> c ORDER BY n"
        );
        let ours = (33..195_102).filter_map(char::from_u32).filter_map(|letter| {
            let text = letter.to_string();
            let (lower, upper) = (collation.lower(&text), collation.upper(&text));
            (lower != text || upper != text)
                .then(|| format!("{} {lower} {upper}", u32::from(letter)))
        });
        let ours: Vec<String> = ours.collect();
        let theirs = postgres.query(&letters);
        let theirs: Vec<&str> = theirs.split('\n').collect();
        let missing: Vec<_> = theirs.iter().filter(|t| !ours.iter().any(|o| o == *t)).collect();
        assert!(missing.is_empty(), "{name}: {missing:?}");
        let more: Vec<_> = ours.iter().filter(|o| !theirs.contains(&o.as_str())).collect();
        assert!(more.is_empty(), "{name}: {more:?}");
    }
}
