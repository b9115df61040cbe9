//! bytea, bit strings, networks and UUIDs.

use super::Area;
use super::arguments::{bits, bytes, inet, int, int8, text};
use forebay_types::functions::{bits as b, bytes as f, network as n, uuid as u};
use forebay_types::{Datum, Inet};

pub(super) const TABLE: Area = &[
    (720, |_, args, _| Ok(size(bytes(args, 0)?.len()))), // octet_length
    (2010, |_, args, _| Ok(size(bytes(args, 0)?.len()))), // length
    (721, |_, args, _| Ok(Datum::Int4(f::get_byte(bytes(args, 0)?, int(args, 1)?)?))),
    (722, |_, args, _| Ok(owned(f::set_byte(bytes(args, 0)?, int(args, 1)?, int(args, 2)?)?))),
    (723, |_, args, _| Ok(Datum::Int4(f::get_bit(bytes(args, 0)?, int8(args, 1)?)?))),
    (724, |_, args, _| Ok(owned(f::set_bit(bytes(args, 0)?, int8(args, 1)?, int(args, 2)?)?))),
    (6163, |_, args, _| Ok(Datum::Int8(f::bit_count(bytes(args, 0)?)))),
    (2012, |_, args, _| {
        Ok(owned(f::substr(bytes(args, 0)?, int(args, 1)?, Some(int(args, 2)?))?.to_vec()))
    }),
    (2013, |_, args, _| Ok(owned(f::substr(bytes(args, 0)?, int(args, 1)?, None)?.to_vec()))),
    (2085, |_, args, _| {
        Ok(owned(f::substr(bytes(args, 0)?, int(args, 1)?, Some(int(args, 2)?))?.to_vec()))
    }),
    (2086, |_, args, _| Ok(owned(f::substr(bytes(args, 0)?, int(args, 1)?, None)?.to_vec()))),
    (2014, |_, args, _| Ok(Datum::Int4(f::position(bytes(args, 1)?, bytes(args, 0)?)))),
    (2011, |_, args, _| Ok(owned([bytes(args, 0)?, bytes(args, 1)?].concat()))), // ||
    (2311, |_, args, host| Ok(Datum::string(f::md5(&host.encoding().encode(text(args, 0)?)?)))),
    (2321, |_, args, _| Ok(Datum::string(f::md5(bytes(args, 0)?)))),
    (3419, |_, args, _| Ok(owned(f::sha224(bytes(args, 0)?)))),
    (3420, |_, args, _| Ok(owned(f::sha256(bytes(args, 0)?)))),
    (3421, |_, args, _| Ok(owned(f::sha384(bytes(args, 0)?)))),
    (3422, |_, args, _| Ok(owned(f::sha512(bytes(args, 0)?)))),
    (1946, |_, args, _| Ok(Datum::string(f::encode(bytes(args, 0)?, text(args, 1)?)?))),
    (1947, |_, args, host| Ok(owned(f::decode(text(args, 0)?, text(args, 1)?, host.encoding())?))),
    // bit strings
    (1681, |_, args, _| Ok(size(bits(args, 0)?.0 as usize))), // length
    (1682, |_, args, _| Ok(size(bits(args, 0)?.0.div_ceil(8) as usize))),
    (1673, |_, args, _| Ok(made(b::and(bits(args, 0)?, bits(args, 1)?)?))),
    (1674, |_, args, _| Ok(made(b::or(bits(args, 0)?, bits(args, 1)?)?))),
    (1675, |_, args, _| Ok(made(b::xor(bits(args, 0)?, bits(args, 1)?)?))),
    (1676, |_, args, _| Ok(made(b::not(bits(args, 0)?)))),
    (1677, |_, args, _| Ok(made(b::shift(bits(args, 0)?, int(args, 1)?.into())))),
    (1678, |_, args, _| Ok(made(b::shift(bits(args, 0)?, -i64::from(int(args, 1)?))))),
    (1679, |_, args, _| Ok(made(b::concat(bits(args, 0)?, bits(args, 1)?)?))),
    (1680, |_, args, _| Ok(made(b::substr(bits(args, 0)?, int(args, 1)?, Some(int(args, 2)?))?))),
    (1699, |_, args, _| Ok(made(b::substr(bits(args, 0)?, int(args, 1)?, None)?))),
    (3032, |_, args, _| Ok(Datum::Int4(b::get_bit(bits(args, 0)?, int(args, 1)?)?))),
    (3033, |_, args, _| Ok(made(b::set_bit(bits(args, 0)?, int(args, 1)?, int(args, 2)?)?))),
    (1698, |_, args, _| Ok(Datum::Int4(b::position(bits(args, 1)?, bits(args, 0)?)))),
    (1683, |_, args, _| Ok(made(b::of_int(int(args, 0)?.into(), 32, length(int(args, 1)?))))),
    (2075, |_, args, _| Ok(made(b::of_int(int8(args, 0)?, 64, length(int(args, 1)?))))),
    (1684, |_, args, _| {
        let value = b::to_int(bits(args, 0)?, 32).and_then(|n| i32::try_from(n).ok());
        value
            .map(Datum::Int4)
            .ok_or_else(|| crate::exec::cast::out_of_range(forebay_types::SqlType::Int4))
    }),
    (2076, |_, args, _| {
        let value = b::to_int(bits(args, 0)?, 64);
        value
            .map(Datum::Int8)
            .ok_or_else(|| crate::exec::cast::out_of_range(forebay_types::SqlType::Int8))
    }),
    // networks
    (699, |_, args, _| Ok(Datum::string(n::host(inet(args, 0)?)))),
    (730, |_, args, _| Ok(Datum::string(n::text(inet(args, 0)?)))),
    (598, |_, args, _| Ok(Datum::string(n::abbrev(inet(args, 0)?)))),
    (711, |_, args, _| Ok(Datum::Int4(n::family(inet(args, 0)?)))),
    (697, |_, args, _| Ok(Datum::Int4(n::masklen(inet(args, 0)?)))),
    (683, |_, args, _| Ok(network(n::network(inet(args, 0)?)))),
    (698, |_, args, _| Ok(network(n::broadcast(inet(args, 0)?)))),
    (696, |_, args, _| Ok(network(n::netmask(inet(args, 0)?)))),
    (1362, |_, args, _| Ok(network(n::hostmask(inet(args, 0)?)))),
    (927, |_, args, _| Ok(Datum::Bool(n::is_within(inet(args, 0)?, inet(args, 1)?)))),
    (928, |_, args, _| Ok(Datum::Bool(n::is_within_or_equal(inet(args, 0)?, inet(args, 1)?)))),
    (929, |_, args, _| Ok(Datum::Bool(n::is_within(inet(args, 1)?, inet(args, 0)?)))),
    (930, |_, args, _| Ok(Datum::Bool(n::is_within_or_equal(inet(args, 1)?, inet(args, 0)?)))),
    (3551, |_, args, _| Ok(Datum::Bool(n::overlaps(inet(args, 0)?, inet(args, 1)?)))),
    // UUIDs
    (3432, |_, _, _| Ok(Datum::Uuid(u::random_v4()?))),
    (6428, |_, _, _| Ok(Datum::Uuid(u::random_v4()?))),
    (6343, |_, args, _| match args.first() {
        Some(Datum::Uuid(uuid)) => Ok(u::version(uuid).map_or(Datum::Null, Datum::Int2)),
        _ => Ok(Datum::Null),
    }),
    (6342, |_, args, _| match args.first() {
        Some(Datum::Uuid(uuid)) => Ok(u::timestamp(uuid).map_or(Datum::Null, Datum::Timestamptz)),
        _ => Ok(Datum::Null),
    }),
];

fn owned<'a>(bytes: Vec<u8>) -> Datum<'a> {
    Datum::Bytes(bytes.into())
}

fn made<'a>((len, bytes): (u32, Vec<u8>)) -> Datum<'a> {
    Datum::Bits(len, bytes.into())
}

fn network<'a>(inet: Inet) -> Datum<'a> {
    Datum::Inet(inet)
}

fn size<'a>(n: usize) -> Datum<'a> {
    Datum::Int4(i32::try_from(n).unwrap_or(i32::MAX))
}

/// The length that a type modifier says; without one, or one that is too large, it is 1.
fn length(typmod: i32) -> u32 {
    let fits = |n: &u32| (1..=b::MAX_BITS as u32).contains(n);
    u32::try_from(typmod).ok().filter(fits).unwrap_or(1)
}
