//! What is done, in groups. A step is a string of statements of one connection, or a checkpoint by
//! another session. Steps after BEGIN show nothing to others until COMMIT.

/// Steps that one life takes.
#[derive(Debug)]
pub struct Group {
    /// What they are about.
    pub name: &'static str,
    pub(super) steps: &'static [&'static str],
}

/// What is there before.
pub(super) const BEFORE: [&str; 5] = [
    "create table base (id int primary key, body text)",
    "alter table base alter body set storage external",
    "insert into base select i, repeat(md5(i::text), 70) from generate_series(1, 12) i",
    "create schema s; create table s.t (a int); insert into s.t values (1), (2)",
    "create role r",
];

/// A group, and how many of its steps lead to where a transaction has changed a table of its own
/// behind a checkpoint.
pub(super) const IN_A_BLOCK: (&Group, usize) = (&GROUPS[1], 4);

/// All groups. A life of a seed takes one.
pub const GROUPS: [Group; 11] = [
    Group {
        name: "tables",
        steps: &[
            "create table a (id serial primary key, n int default 7 check (n > 0), body text)",
            "insert into a (body) values ('x'), (repeat('y', 9000))",
            "create index a_n on a (n)",
            "checkpoint",
            "drop table a",
            "create table a (x int)",
            "drop table a",
        ],
    },
    Group {
        name: "blocks",
        steps: &[
            "begin; create table b (id int primary key, t text)",
            "insert into b select i, 'v' from generate_series(1, 20) i",
            "checkpoint",
            "insert into b select i, 'w' from generate_series(21, 24) i",
            "create index b_t on b (t); alter table base add column n int",
            "commit",
            "begin; create table c (id serial primary key, t text); drop table b; truncate base",
            "checkpoint",
            "create table d (a int)",
            "rollback",
            "begin; savepoint one; create table e (a int); rollback to one; create table f (a int)",
            "insert into f values (1); drop table b",
            "commit",
        ],
    },
    Group {
        name: "rewrites",
        steps: &[
            "truncate base",
            "insert into base select i, repeat(md5(i::text), 70) from generate_series(1, 5) i",
            "alter table base alter id type bigint",
            "checkpoint",
            "alter table base add column extra int default 5",
            "alter table base drop column extra",
            "reindex table base",
            "vacuum full base",
        ],
    },
    Group {
        name: "keys",
        steps: &[
            "create table child (id int references base on delete cascade, n int)",
            "insert into child values (1, 1), (2, 1)",
            "alter table child add check (id > 0)",
            "alter table child add constraint one unique (id) deferrable",
            "checkpoint",
            "alter table base rename to parent",
            "alter table child drop constraint one",
            "drop table parent cascade",
            "drop table child",
        ],
    },
    Group {
        name: "schemas and roles",
        steps: &[
            "create schema x; create table x.t (a serial primary key, b text)",
            "create role q; grant q to r; alter role q set work_mem = '2MB'",
            "alter table x.t owner to q; comment on table x.t is 'mine'",
            "checkpoint",
            "alter schema x rename to y",
            "drop schema s cascade",
            "drop schema y cascade",
            "drop role q",
        ],
    },
    Group {
        name: "sequences",
        steps: &[
            "create sequence q increment 5; select nextval('q')",
            "alter sequence q increment 7 restart 100",
            "checkpoint",
            "create table n (a int default nextval('q'), g int generated always as identity)",
            "insert into n default values; insert into n default values",
            "alter table n alter g drop identity",
            "drop table n; drop sequence q",
        ],
    },
    Group {
        name: "tablespaces",
        steps: &[
            "create tablespace one location ''",
            "alter tablespace one rename to two",
            "checkpoint",
            "comment on tablespace two is 'of mine'",
            "drop tablespace two",
            "create tablespace three location ''",
        ],
    },
    Group {
        name: "unlogged and temporary",
        steps: &[
            "create unlogged sequence u; select nextval('u')",
            "create temp table w (a serial primary key, t text); insert into w values (1, 'x'); \
             drop table w",
            "checkpoint",
            "alter sequence u restart 100",
            "create table x (a int default nextval('u')); insert into x default values",
            "drop table x; drop sequence u",
        ],
    },
    Group {
        name: "copies",
        steps: &[
            "create table l (like base including all)",
            "create table m as select id, body from base where id < 4",
            "checkpoint",
            "create unique index m_id on m (id); alter table m add primary key using index m_id",
            "reindex index m_id",
            "drop table l; drop table m",
        ],
    },
    Group {
        name: "unlogged tables",
        steps: &[
            "create unlogged table u (id serial primary key, t text)",
            "insert into u (t) values ('x'), (repeat('y', 9000))",
            "create index u_id on u (id)",
            "checkpoint",
            "begin; alter table u set logged; savepoint one; alter table u set unlogged",
            "rollback to one; insert into u (t) values ('z')",
            "commit",
            "truncate u",
            "alter table u set unlogged",
            "truncate u; reindex table u",
            "drop table u",
        ],
    },
    Group {
        name: "moved tables",
        steps: &[
            "create tablespace one location ''",
            "alter table base set tablespace one",
            "alter index base_pkey set tablespace one",
            "checkpoint",
            "begin; savepoint one; alter table base set tablespace pg_default; rollback to one",
            "truncate base; alter table base set tablespace pg_default",
            "insert into base values (1, 'x')",
            "commit",
            "create unlogged table u (a int primary key, t text) tablespace one",
            "begin; alter table u set tablespace pg_default; alter table base set tablespace one",
            "rollback",
            "alter table u set tablespace pg_default; drop table u",
            "alter index base_pkey set tablespace pg_default",
            "drop tablespace one",
        ],
    },
];
