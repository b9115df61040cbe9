//! What PostgreSQL's catalogs say of what statements have made, to compare clusters by it.

/// What the catalogs say of all that was made, TOAST tables included, without OIDs.
pub const CATALOGS: [(&str, &str); 9] = [
    (
        "pg_class",
        "select regexp_replace(relname, 'pg_toast_[0-9]+', 'pg_toast_N') as name,
             (select m.relname from pg_class m where m.reltoastrelid = c.oid),
             relnamespace::regnamespace, reltoastrelid = 0, reltype::regtype, reloftype, relowner,
             relam, relfilenode = oid, reltablespace, relpages, reltuples, relallvisible,
             relallfrozen, relhasindex,
             relisshared, relpersistence, relkind, relnatts, relchecks, relhasrules,
             relhastriggers, relhassubclass, relrowsecurity, relforcerowsecurity, relispopulated,
             relreplident, relispartition, relrewrite, relfrozenxid <> '0', relminmxid, relacl,
             reloptions, relpartbound
         from pg_class c where oid >= 16384 order by 1, 2",
    ),
    (
        "pg_attribute",
        "select regexp_replace(attrelid::regclass::text, 'pg_toast_[0-9]+', 'pg_toast_N'),
             attname, atttypid::regtype, attlen, attnum, atttypmod, attndims, attbyval, attalign,
             attstorage, attcompression, attnotnull, atthasdef,
             atthasmissing, attidentity, attgenerated, attisdropped, attislocal, attinhcount,
             attcollation::regcollation, attstattarget,
             attacl, attoptions, attfdwoptions, attmissingval
         from pg_attribute where attrelid >= 16384 order by 1, attnum",
    ),
    (
        "pg_index",
        "select
             regexp_replace(pg_get_indexdef(indexrelid), 'pg_toast_[0-9]+', 'pg_toast_N', 'g'),
             regexp_replace(indexrelid::regclass::text, 'pg_toast_[0-9]+', 'pg_toast_N'),
             indnatts, indnkeyatts, indisunique,
             indnullsnotdistinct, indisprimary, indisexclusion, indimmediate, indisclustered,
             indisvalid, indcheckxmin, indisready, indislive, indisreplident, indkey,
             indcollation::oid[]::regcollation[],
             (select string_agg(opcname, ',') from unnest(indclass) u join pg_opclass o
              on o.oid = u), indoption, indexprs, indpred
         from pg_index where indexrelid >= 16384 order by 1, 2",
    ),
    (
        "pg_constraint",
        "select conname, connamespace::regnamespace, contype, condeferrable, condeferred,
             conenforced, convalidated, conrelid::regclass, contypid, conindid::regclass,
             conparentid, confrelid, confupdtype, confdeltype, confmatchtype, conislocal,
             coninhcount, connoinherit, conperiod, conkey, confkey, conpfeqop, conppeqop,
             conffeqop, confdelsetcols, conexclop, conbin, pg_get_constraintdef(oid)
         from pg_constraint where connamespace = 'public'::regnamespace order by conname",
    ),
    (
        "pg_depend",
        "select regexp_replace(pg_describe_object(classid, objid, objsubid),
                 'pg_toast_[0-9]+', 'pg_toast_N', 'g') a,
             regexp_replace(pg_describe_object(refclassid, refobjid, refobjsubid),
                 'pg_toast_[0-9]+', 'pg_toast_N', 'g') b, deptype
         from pg_depend where objid >= 16384 order by 1, 2, 3",
    ),
    (
        "pg_type",
        "select typname, typowner, typlen, typbyval, typtype, typcategory, typispreferred,
             typisdefined, typdelim, typrelid::regclass, typsubscript, typelem::regtype,
             typarray::regtype, typinput, typoutput, typreceive, typsend, typmodin, typmodout,
             typanalyze, typalign, typstorage, typnotnull, typbasetype, typtypmod, typndims,
             typcollation, typdefaultbin, typdefault, typacl
         from pg_type where typnamespace = 'public'::regnamespace order by typname",
    ),
    (
        "pg_collation",
        "select collname, collnamespace::regnamespace, collowner, collprovider,
             collisdeterministic, collencoding, collcollate, collctype, colllocale, collicurules,
             collversion
         from pg_collation where oid >= 16384 order by collname",
    ),
    (
        "pg_sequence",
        "select seqrelid::regclass, seqtypid::regtype, seqstart, seqincrement, seqmax, seqmin,
             seqcache, seqcycle
         from pg_sequence where seqrelid >= 16384 order by 1",
    ),
    (
        "pg_attrdef",
        "select adrelid::regclass, adnum, pg_get_expr(adbin, adrelid),
             regexp_replace(adbin, ':constvalue 4 \\[[-0-9 ]*\\]', '', 'g')
         from pg_attrdef where oid >= 16384 order by adrelid::regclass::text, adnum",
    ),
];
