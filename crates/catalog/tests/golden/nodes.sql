-- Defaults, checks, generated columns, index expressions and predicates of all node kinds and
-- many types. PostgreSQL 18's trees of them and its texts are recorded in nodes.tsv.

CREATE SCHEMA other;
CREATE SCHEMA "Odd Schema";
CREATE SEQUENCE seq;
CREATE SEQUENCE "Odd Seq";
CREATE SEQUENCE other.seq2;
CREATE FUNCTION plus_one(a int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT a + 1';
CREATE FUNCTION other.twice(a int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT a * 2';
CREATE FUNCTION "Odd Name"(a text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT a';
CREATE FUNCTION many(VARIADIC a int[]) RETURNS int LANGUAGE sql IMMUTABLE
  AS 'SELECT cardinality(a)';
CREATE FUNCTION named(a int, b int DEFAULT 2, c int DEFAULT 3) RETURNS int LANGUAGE sql IMMUTABLE
  AS 'SELECT a + b + c';
CREATE OPERATOR other.@@@ (LEFTARG = int, RIGHTARG = int, FUNCTION = int4pl);
CREATE OPERATOR <+> (LEFTARG = int, RIGHTARG = int, FUNCTION = int4pl);
CREATE OPERATOR !!! (RIGHTARG = int, FUNCTION = int4um);
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE DOMAIN short_text AS varchar(10) NOT NULL CHECK (length(VALUE) > 1 AND VALUE <> 'none');
CREATE DOMAIN us_postal AS text CHECK (VALUE ~ '^\d{5}$' OR VALUE ~ '^\d{5}-\d{4}$');
CREATE TYPE mood AS ENUM ('sad', 'ok', 'it''s fine');
CREATE TYPE other.colour AS ENUM ('red', 'green');
CREATE TYPE pair AS (x int, "Y y" text);
CREATE COLLATION other.posix_copy FROM "POSIX";

CREATE TABLE d_numbers (
  a int DEFAULT (0),
  b int DEFAULT (42),
  c int DEFAULT (-7),
  d int DEFAULT (-2147483648),
  e smallint DEFAULT (3),
  f smallint DEFAULT (-3),
  g bigint DEFAULT (9),
  h bigint DEFAULT (5000000000),
  i bigint DEFAULT (-5000000000),
  j int DEFAULT (NULL),
  k int DEFAULT (1 + 2 * 3),
  l int DEFAULT ((1 + 2) * 3),
  m real DEFAULT (1.5),
  n real DEFAULT ('-Infinity'),
  o double precision DEFAULT (0.1),
  p double precision DEFAULT ('NaN'),
  q double precision DEFAULT (1e100),
  r numeric DEFAULT (1.50),
  s numeric DEFAULT (0.00),
  t numeric(10,2) DEFAULT (3.14159),
  u numeric(10,2) DEFAULT (0),
  v numeric DEFAULT (-12.5),
  w numeric DEFAULT ('NaN'),
  x numeric DEFAULT (123456789012345678901234567890.12),
  y numeric DEFAULT (100),
  z numeric DEFAULT (1e-10),
  aa numeric(5) DEFAULT (12345),
  ab numeric(3,-2) DEFAULT (100),
  ac numeric DEFAULT ('Infinity'),
  ad int DEFAULT (0x1F),
  ae int DEFAULT (1_000),
  af bigint DEFAULT (2::bigint),
  ag int DEFAULT ('5'),
  ah int DEFAULT ('5'::int),
  ai int DEFAULT (5::smallint),
  aj oid DEFAULT (17),
  ak numeric DEFAULT (1e20),
  al numeric DEFAULT (0.0001),
  am int DEFAULT (10 % 3),
  an int DEFAULT (2 ^ 3),
  ao int DEFAULT (~ 5),
  ap int DEFAULT (1 << 4),
  aq int DEFAULT (7 & 3),
  ar int DEFAULT (7 | 8),
  ase int DEFAULT (7 # 2),
  at double precision DEFAULT (|/ 25.0),
  au double precision DEFAULT (||/ 27.0),
  av int DEFAULT (@ (-5)),
  aw int DEFAULT (- (- 5)),
  ax double precision DEFAULT (random()),
  ay double precision DEFAULT (pi()),
  az int DEFAULT (!!! 4),
  ba int DEFAULT (3 <+> 4),
  bb int DEFAULT (3 OPERATOR(other.@@@) 4),
  bc int DEFAULT (3 OPERATOR(pg_catalog.+) 4),
  bd money DEFAULT (12.34),
  be "char" DEFAULT ('x'),
  bf "char" DEFAULT ('\377')
);

CREATE TABLE d_strings (
  a text DEFAULT ('hello'),
  b text DEFAULT (''),
  c text DEFAULT ('it''s'),
  d text DEFAULT (E'back\\slash\nline'),
  e varchar DEFAULT ('v'),
  f varchar(10) DEFAULT ('ten'),
  g char DEFAULT ('c'),
  h char(5) DEFAULT ('five'),
  i bpchar DEFAULT ('b  '),
  j name DEFAULT ('a_name'),
  k text DEFAULT ('grün €'),
  l text DEFAULT ('a' || 'b'),
  m text DEFAULT (upper('abc')),
  n text DEFAULT ('abc'::varchar(2)),
  o text DEFAULT ('abc'::char(2)::text),
  p varchar(5) DEFAULT ('abc'::text),
  q text DEFAULT (concat('a', 1, true)),
  r text DEFAULT (format('%s-%s', 'a', 2)),
  s text DEFAULT (lpad('x', 5, '0')),
  t bytea DEFAULT ('\xdeadbeef'),
  u bytea DEFAULT (''),
  v text DEFAULT (md5('x')),
  w text DEFAULT (encode('\x01ff'::bytea, 'hex')),
  x text DEFAULT (repeat('ab', 3)),
  y text DEFAULT ('x' COLLATE "C"),
  z text COLLATE "C" DEFAULT ('collated'),
  aa text DEFAULT (NULL::text),
  ab text DEFAULT (5::text),
  ac text DEFAULT (1.5),
  ad text DEFAULT (true),
  ae text DEFAULT (E'tab\there'),
  af text DEFAULT ('{braces} (parens) "quotes" :colon <>'),
  ag text DEFAULT ("Odd Name"('x')),
  ah text DEFAULT (quote_literal('a')),
  ai text DEFAULT (chr(65)),
  aj text DEFAULT ($$dollar$$),
  ak bit(4) DEFAULT (B'1010'),
  al varbit DEFAULT (B'101'),
  am bit DEFAULT (B'1'),
  an varbit(5) DEFAULT (X'1F'),
  ao text DEFAULT (U&'\00e4'),
  ap varchar(300) DEFAULT (repeat('x', 300)),
  aq text DEFAULT ('C:\dir')
);

CREATE TABLE d_times (
  a date DEFAULT (CURRENT_DATE),
  b date DEFAULT ('2024-02-29'),
  c date DEFAULT ('infinity'),
  d date DEFAULT (date '1999-01-08'),
  e time DEFAULT (CURRENT_TIME),
  f time DEFAULT ('12:34:56.789'),
  g time(3) DEFAULT (LOCALTIME(3)),
  h timetz DEFAULT (CURRENT_TIME(2)),
  i timetz DEFAULT ('12:00+02'),
  j timestamp DEFAULT (CURRENT_TIMESTAMP),
  k timestamp DEFAULT (LOCALTIMESTAMP),
  l timestamp(0) DEFAULT (LOCALTIMESTAMP(0)),
  m timestamp DEFAULT ('2020-01-01 00:00:00'),
  n timestamptz DEFAULT (now()),
  o timestamptz DEFAULT (CURRENT_TIMESTAMP(3)),
  p timestamptz DEFAULT ('2020-01-01 00:00:00+00'),
  q timestamptz DEFAULT ('-infinity'),
  r interval DEFAULT ('1 day'),
  s interval DEFAULT (interval '1 year 2 mons 3 days 04:05:06'),
  t interval DEFAULT ('90 minutes'::interval),
  u interval day to second DEFAULT ('1 day'),
  v interval(2) DEFAULT ('1.234 seconds'),
  w interval year DEFAULT ('3 years'),
  x timestamp DEFAULT (now() AT TIME ZONE 'UTC'),
  y timestamptz DEFAULT (now() + '1 day'::interval),
  z timestamptz DEFAULT (now() - interval '30 days'),
  aa int DEFAULT (EXTRACT(year FROM now())),
  ab double precision DEFAULT (date_part('epoch', now())),
  ac date DEFAULT (now()::date),
  ad timestamptz DEFAULT (date_trunc('month', now())),
  ae timestamptz DEFAULT (clock_timestamp()),
  af timestamptz DEFAULT (transaction_timestamp()),
  ag timestamptz DEFAULT (statement_timestamp()),
  ah text DEFAULT (to_char(now(), 'YYYY-MM-DD')),
  ai date DEFAULT (make_date(2020, 1, 2)),
  aj timestamptz DEFAULT ('now'::text::timestamptz),
  ak timestamp DEFAULT (timezone('utc', now())),
  al timestamp DEFAULT (now() AT LOCAL),
  am interval DEFAULT (age(now())),
  an timestamptz DEFAULT (to_timestamp(0)),
  ao date DEFAULT (CURRENT_DATE + 7),
  ap date DEFAULT ((CURRENT_DATE - '1 mon'::interval)::date),
  aq interval DEFAULT (make_interval(days => 10)),
  ar text DEFAULT (timeofday()),
  ase interval minute to second(3) DEFAULT ('1:02.5'),
  at time DEFAULT (CURRENT_TIMESTAMP::time),
  au timestamptz(2) DEFAULT (now()),
  av date DEFAULT ('0044-03-15 BC')
);

CREATE TABLE d_others (
  a bool DEFAULT (true),
  b bool DEFAULT (false),
  c bool DEFAULT ('t'),
  d bool DEFAULT (NOT true),
  e bool DEFAULT (1 = 1),
  f bool DEFAULT (1 < 2 AND 3 > 2),
  g uuid DEFAULT (gen_random_uuid()),
  h uuid DEFAULT ('11111111-2222-3333-4444-555555555555'),
  i uuid DEFAULT (uuidv7()),
  j json DEFAULT ('{"a": 1}'),
  k jsonb DEFAULT ('{}'),
  l jsonb DEFAULT ('[]'::jsonb),
  m jsonb DEFAULT ('{"b": [1, 2, {"c": null}], "a": "x"}'),
  n jsonb DEFAULT (jsonb_build_object('a', 1, 'b', 'x')),
  o inet DEFAULT ('10.0.0.1'),
  p cidr DEFAULT ('10.0.0.0/8'),
  q macaddr DEFAULT ('08:00:2b:01:02:03'),
  r int[] DEFAULT ('{}'),
  s int[] DEFAULT ('{1,2,3}'),
  t int[] DEFAULT (ARRAY[1, 2, 3]),
  u text[] DEFAULT (ARRAY['a', 'b']),
  v text[] DEFAULT (ARRAY[]::text[]),
  w text[] DEFAULT ('{"x y",NULL,z}'),
  x int[] DEFAULT (ARRAY[[1, 2], [3, 4]]),
  y varchar(5)[] DEFAULT (ARRAY['a', 'b']),
  z numeric[] DEFAULT (ARRAY[1.5, 2]),
  aa int DEFAULT ((ARRAY[1, 2, 3])[2]),
  ab int[] DEFAULT ((ARRAY[1, 2, 3])[1:2]),
  ac int DEFAULT (nextval('seq')),
  ad bigint DEFAULT (nextval('other.seq2')),
  ae bigint DEFAULT (nextval('"Odd Seq"'::regclass)),
  af int DEFAULT (nextval('seq'::text::regclass)),
  ag name DEFAULT (CURRENT_USER),
  ah name DEFAULT (SESSION_USER),
  ai text DEFAULT (CURRENT_ROLE),
  aj text DEFAULT (USER),
  ak text DEFAULT (CURRENT_CATALOG),
  al text DEFAULT (CURRENT_SCHEMA),
  am text DEFAULT (current_setting('a.b', true)),
  an regclass DEFAULT ('pg_class'),
  ao regtype DEFAULT ('int4'),
  ap regproc DEFAULT ('now'),
  aq regtype DEFAULT ('other.colour'),
  ar mood DEFAULT ('ok'),
  ase mood DEFAULT ('it''s fine'),
  at other.colour DEFAULT ('red'),
  au positive DEFAULT (5),
  av short_text DEFAULT ('xy'),
  aw pair DEFAULT (ROW(1, 'a')),
  ax pair DEFAULT ('(2,b)'),
  ay int4range DEFAULT ('[1,10)'),
  az point DEFAULT ('(1,2)'),
  ba pg_lsn DEFAULT ('0/16B3748'),
  bb xid8 DEFAULT ('42'),
  bc tid DEFAULT ('(1,2)'),
  bd xid DEFAULT ('7'),
  be int2vector DEFAULT ('1 2'),
  bf text DEFAULT (version()),
  bg int DEFAULT (plus_one(1)),
  bh int DEFAULT (other.twice(2)),
  bi int DEFAULT (many(1, 2, 3)),
  bj int DEFAULT (many(VARIADIC ARRAY[4, 5])),
  bk int DEFAULT (named(1)),
  bl int DEFAULT (named(1, c => 5)),
  bm int DEFAULT (named(c => 1, a => 2, b => 3)),
  bn text DEFAULT (coalesce(current_setting('x.y', true), 'none')),
  bo int DEFAULT (greatest(1, 2, 3)),
  bp int DEFAULT (least(4, 5)),
  bq int DEFAULT (nullif(1, 0)),
  br text DEFAULT (CASE WHEN true THEN 'a' ELSE 'b' END),
  bs int DEFAULT (CASE 3 WHEN 1 THEN 10 WHEN 3 THEN 30 END),
  bt bool DEFAULT (1 IS DISTINCT FROM 2),
  bu bool DEFAULT (NULL IS NULL),
  bv bool DEFAULT (3 IN (1, 2, 3)),
  bw bool DEFAULT (3 NOT IN (1, 2)),
  bx bool DEFAULT (1 = ANY (ARRAY[1, 2])),
  by bool DEFAULT (1 <> ALL ('{2,3}'::int[])),
  bz bool DEFAULT (5 BETWEEN 1 AND 10),
  ca bool DEFAULT ('a' LIKE 'b%'),
  cb bool DEFAULT ('a' ILIKE 'B%'),
  cc bool DEFAULT ('a' SIMILAR TO 'a|b'),
  cd bool DEFAULT ('a' ~* 'A'),
  ce bool DEFAULT (ROW(1, 2) < ROW(1, 3)),
  cf bool DEFAULT ((1, 2) = (1, 2)),
  cg bool DEFAULT (ROW(1, NULL) IS NULL),
  ch text DEFAULT (system_user),
  ci text DEFAULT (pg_typeof('x')),
  cj int DEFAULT (num_nulls(1, NULL, 'x')),
  ck int[] DEFAULT (ARRAY[1, 2] || 3),
  cl "char"[] DEFAULT ('{a}'),
  cm bool[] DEFAULT (ARRAY[true, false]),
  cn timestamptz[] DEFAULT (ARRAY[now()]),
  co xml DEFAULT ('<a/>'),
  cp tsvector DEFAULT ('a b'),
  cq money[] DEFAULT (NULL),
  cr mood[] DEFAULT (ARRAY['sad']::mood[]),
  ct regnamespace DEFAULT ('public'),
  cu regoper DEFAULT ('||/'),
  cv regprocedure DEFAULT ('plus_one(int)'),
  cw regcollation DEFAULT ('"C"'),
  cx int DEFAULT ((ROW(1, 'x')::pair).x)
);

CREATE TABLE d_generated (
  id int GENERATED ALWAYS AS IDENTITY,
  a int,
  b text,
  c numeric(10,2),
  d timestamptz,
  "E e" int,
  f timestamp,
  g text COLLATE "C",
  h jsonb,
  i int[],
  ga int GENERATED ALWAYS AS (a * 2) STORED,
  gb text GENERATED ALWAYS AS (b || '-' || a) STORED,
  gc numeric GENERATED ALWAYS AS (c * 1.19) STORED,
  gd int GENERATED ALWAYS AS (a + "E e") VIRTUAL,
  ge text GENERATED ALWAYS AS (upper(b)) STORED,
  gf int GENERATED ALWAYS AS (coalesce(a, 0)),
  gg text GENERATED ALWAYS AS
    (CASE WHEN a > 0 THEN 'pos' WHEN a < 0 THEN 'neg' ELSE 'zero' END) STORED,
  gh date GENERATED ALWAYS AS (f::date) STORED,
  gi text GENERATED ALWAYS AS (h ->> 'name') STORED,
  gj int GENERATED ALWAYS AS (i[1]) STORED,
  gk tsvector GENERATED ALWAYS AS (to_tsvector('simple'::regconfig, b)) STORED,
  gl timestamp GENERATED ALWAYS AS (d AT TIME ZONE 'UTC') STORED,
  gm numeric GENERATED ALWAYS AS (EXTRACT(year FROM f)) STORED,
  gn bool GENERATED ALWAYS AS (a IS NOT NULL),
  go text GENERATED ALWAYS AS (h #>> '{a,b}') STORED,
  gp varchar(5) GENERATED ALWAYS AS (b) STORED,
  gq int GENERATED ALWAYS AS (length(b)::bigint::int) STORED
);

CREATE TABLE k (
  a int, b int, c bigint, d smallint, e numeric(8,3), f double precision, g real, h text,
  i varchar(20), j char(3), n name, o bool, p date, q timestamp, r timestamptz, s time,
  t interval, u uuid, v json, w jsonb, x inet, y bytea, z int[], aa text[], ab mood, ac positive,
  ad pair, ae bit(8), af varbit, ag int4range, ah text COLLATE "C", "Mixed Case" int,
  "select" text, ai varchar COLLATE "POSIX", aj timetz, ak oid
);
ALTER TABLE k ADD CHECK (a > 0);
ALTER TABLE k ADD CHECK (a >= 0 AND b >= 0);
ALTER TABLE k ADD CHECK (a > 0 OR b > 0 OR c > 0);
ALTER TABLE k ADD CHECK (NOT (a = b));
ALTER TABLE k ADD CHECK (NOT o);
ALTER TABLE k ADD CHECK (o);
ALTER TABLE k ADD CHECK (a > 0 AND (b > 0 OR c > 0) AND d > 0);
ALTER TABLE k ADD CHECK ((a > 0 AND b > 0) OR (c > 0 AND NOT o));
ALTER TABLE k ADD CHECK (a BETWEEN 1 AND 10);
ALTER TABLE k ADD CHECK (a NOT BETWEEN 1 AND 10);
ALTER TABLE k ADD CHECK (a BETWEEN SYMMETRIC 10 AND 1);
ALTER TABLE k ADD CHECK (a IN (1, 2, 3));
ALTER TABLE k ADD CHECK (a NOT IN (1, 2));
ALTER TABLE k ADD CHECK (h IN ('a', 'b', 'c'));
ALTER TABLE k ADD CHECK (i IN ('x', 'y'));
ALTER TABLE k ADD CHECK (j IN ('abc', 'def'));
ALTER TABLE k ADD CHECK (h = ANY (ARRAY['a', 'b']));
ALTER TABLE k ADD CHECK (a <> ALL (z));
ALTER TABLE k ADD CHECK (h LIKE 'a%');
ALTER TABLE k ADD CHECK (h NOT LIKE 'a%');
ALTER TABLE k ADD CHECK (h ILIKE '%b');
ALTER TABLE k ADD CHECK (h ~ '^[a-z]+$');
ALTER TABLE k ADD CHECK (h !~* 'x');
ALTER TABLE k ADD CHECK (i ~ '^\d+$');
ALTER TABLE k ADD CHECK (h SIMILAR TO '(a|b)%');
ALTER TABLE k ADD CHECK (h LIKE 'a!%' ESCAPE '!');
ALTER TABLE k ADD CHECK (j LIKE 'a%');
ALTER TABLE k ADD CHECK (length(h) <= 10);
ALTER TABLE k ADD CHECK (char_length(i) > 2);
ALTER TABLE k ADD CHECK (octet_length(y) < 100);
ALTER TABLE k ADD CHECK (lower(h) = h);
ALTER TABLE k ADD CHECK (upper(i) = i);
ALTER TABLE k ADD CHECK (trim(h) <> '');
ALTER TABLE k ADD CHECK (btrim(h) <> '');
ALTER TABLE k ADD CHECK (TRIM(LEADING 'x' FROM h) <> '');
ALTER TABLE k ADD CHECK (TRIM(TRAILING FROM h) <> '');
ALTER TABLE k ADD CHECK (TRIM(BOTH 'ab' FROM h) <> 'c');
ALTER TABLE k ADD CHECK (substring(h FROM 1 FOR 2) = 'ab');
ALTER TABLE k ADD CHECK (substring(h FROM 2) = 'b');
ALTER TABLE k ADD CHECK (substring(h, 1, 2) = 'ab');
ALTER TABLE k ADD CHECK (substring(h FROM '^a') = 'a');
ALTER TABLE k ADD CHECK (substring(h SIMILAR 'a#"b#"c' ESCAPE '#') = 'b');
ALTER TABLE k ADD CHECK (position('a' IN h) > 0);
ALTER TABLE k ADD CHECK (overlay(h PLACING 'x' FROM 1) = 'x');
ALTER TABLE k ADD CHECK (overlay(h PLACING 'x' FROM 1 FOR 2) = 'x');
ALTER TABLE k ADD CHECK (strpos(h, 'x') = 0);
ALTER TABLE k ADD CHECK (EXTRACT(year FROM p) > 2000);
ALTER TABLE k ADD CHECK (EXTRACT(dow FROM q) BETWEEN 1 AND 5);
ALTER TABLE k ADD CHECK (extract('hour' FROM s) < 12);
ALTER TABLE k ADD CHECK (date_part('year', p) > 2000);
ALTER TABLE k ADD CHECK (p > '2000-01-01');
ALTER TABLE k ADD CHECK (p > date '2000-01-01');
ALTER TABLE k ADD CHECK (q < '2100-01-01 00:00:00'::timestamp);
ALTER TABLE k ADD CHECK (q + '1 day'::interval > q);
ALTER TABLE k ADD CHECK (q - interval '1 hour' < q);
ALTER TABLE k ADD CHECK ((p, p) OVERLAPS (p, p));
ALTER TABLE k ADD CHECK ((s, s) OVERLAPS ('10:00'::time, '11:00'::time));
ALTER TABLE k ADD CHECK ((q, t) OVERLAPS (q, t));
ALTER TABLE k ADD CHECK (q AT TIME ZONE 'UTC' > r);
ALTER TABLE k ADD CHECK (r AT TIME ZONE 'Europe/Berlin' > q);
ALTER TABLE k ADD CHECK (r AT TIME ZONE interval '2 hours' > q);
ALTER TABLE k ADD CHECK (aj AT TIME ZONE 'UTC' IS NOT NULL);
ALTER TABLE k ADD CHECK (q AT LOCAL > r);
ALTER TABLE k ADD CHECK (date_trunc('day', q) = q);
ALTER TABLE k ADD CHECK (t > '00:00:00');
ALTER TABLE k ADD CHECK (age(q, q) < t);
ALTER TABLE k ADD CHECK (r > now());
ALTER TABLE k ADD CHECK (p <= CURRENT_DATE);
ALTER TABLE k ADD CHECK (s < LOCALTIME);
ALTER TABLE k ADD CHECK (a IS NULL);
ALTER TABLE k ADD CHECK (a IS NOT NULL);
ALTER TABLE k ADD CHECK (o IS TRUE);
ALTER TABLE k ADD CHECK (o IS NOT TRUE);
ALTER TABLE k ADD CHECK (o IS FALSE);
ALTER TABLE k ADD CHECK (o IS NOT FALSE);
ALTER TABLE k ADD CHECK (o IS UNKNOWN);
ALTER TABLE k ADD CHECK ((a > 1) IS NOT UNKNOWN);
ALTER TABLE k ADD CHECK (a IS DISTINCT FROM b);
ALTER TABLE k ADD CHECK (a IS NOT DISTINCT FROM b);
ALTER TABLE k ADD CHECK (h IS DISTINCT FROM 'x');
ALTER TABLE k ADD CHECK (a IS DISTINCT FROM NULL);
ALTER TABLE k ADD CHECK (ad IS NULL);
ALTER TABLE k ADD CHECK (ad IS DISTINCT FROM NULL);
ALTER TABLE k ADD CHECK (ROW(a, b) IS NOT NULL);
ALTER TABLE k ADD CHECK (a + b > c);
ALTER TABLE k ADD CHECK (a + b - c > 0);
ALTER TABLE k ADD CHECK (a - (b - c) > 0);
ALTER TABLE k ADD CHECK (a * (b + c) > 0);
ALTER TABLE k ADD CHECK (a + b * c > 0);
ALTER TABLE k ADD CHECK ((a + b) * c / d % 7 > 0);
ALTER TABLE k ADD CHECK (-a < 0);
ALTER TABLE k ADD CHECK (- (a + b) < 0);
ALTER TABLE k ADD CHECK (a * -1 < 0);
ALTER TABLE k ADD CHECK (c > 5000000000);
ALTER TABLE k ADD CHECK (d > 1);
ALTER TABLE k ADD CHECK (d > -1);
ALTER TABLE k ADD CHECK (e > 1.5);
ALTER TABLE k ADD CHECK (e = 0);
ALTER TABLE k ADD CHECK (f > 1.5);
ALTER TABLE k ADD CHECK (g < 1e10);
ALTER TABLE k ADD CHECK (a::numeric > 1.5);
ALTER TABLE k ADD CHECK (e::int > 1);
ALTER TABLE k ADD CHECK (f::numeric(10,2) > 0);
ALTER TABLE k ADD CHECK (a / 2.0 > 1);
ALTER TABLE k ADD CHECK (a ^ 2 > 1);
ALTER TABLE k ADD CHECK (@ a > 1);
ALTER TABLE k ADD CHECK (a & 1 = 0);
ALTER TABLE k ADD CHECK ((a & 1) = 0);
ALTER TABLE k ADD CHECK (a << 2 > 0);
ALTER TABLE k ADD CHECK (~ a > 0);
ALTER TABLE k ADD CHECK (a % 2 = 0);
ALTER TABLE k ADD CHECK (|/ f > 1);
ALTER TABLE k ADD CHECK (abs(a) > 1);
ALTER TABLE k ADD CHECK (round(e, 1) = e);
ALTER TABLE k ADD CHECK (mod(a, 2) = 0);
ALTER TABLE k ADD CHECK (a > b + 1 AND b < c * 2);
ALTER TABLE k ADD CHECK (a - b - c - d > 0);
ALTER TABLE k ADD CHECK (a = b AND b = c);
ALTER TABLE k ADD CHECK ((a = b) = o);
ALTER TABLE k ADD CHECK ((a > b) <> (b > c));
ALTER TABLE k ADD CHECK (h || i <> 'x');
ALTER TABLE k ADD CHECK (h || a <> 'x1');
ALTER TABLE k ADD CHECK (h || 'a' || 'b' <> '');
ALTER TABLE k ADD CHECK (h COLLATE "C" < 'x');
ALTER TABLE k ADD CHECK (h < 'x' COLLATE "POSIX");
ALTER TABLE k ADD CHECK (ah < 'x');
ALTER TABLE k ADD CHECK (ai > 'x');
ALTER TABLE k ADD CHECK (h COLLATE other.posix_copy > i);
ALTER TABLE k ADD CHECK (lower(h COLLATE "C") > 'x');
ALTER TABLE k ADD CHECK ((h || 'x') COLLATE "C" > 'y');
ALTER TABLE k ADD CHECK (n = 'x');
ALTER TABLE k ADD CHECK (n::text <> 'y');
ALTER TABLE k ADD CHECK (i::text = 'x');
ALTER TABLE k ADD CHECK (h::varchar(3) = 'abc');
ALTER TABLE k ADD CHECK (j = 'abc');
ALTER TABLE k ADD CHECK (j::text = 'abc');
ALTER TABLE k ADD CHECK (h::char(2) = 'ab');
ALTER TABLE k ADD CHECK (a::text <> '1');
ALTER TABLE k ADD CHECK (a::text::int > 0);
ALTER TABLE k ADD CHECK (h::int > 0);
ALTER TABLE k ADD CHECK (h::date > '2000-01-01');
ALTER TABLE k ADD CHECK (i > h);
ALTER TABLE k ADD CHECK ("Mixed Case" > 0);
ALTER TABLE k ADD CHECK ("select" <> 'from');
ALTER TABLE k ADD CHECK (coalesce(a, b, 0) > 0);
ALTER TABLE k ADD CHECK (coalesce(h, i, 'x') <> '');
ALTER TABLE k ADD CHECK (nullif(a, 0) > 1);
ALTER TABLE k ADD CHECK (nullif(h, '') IS NOT NULL);
ALTER TABLE k ADD CHECK (greatest(a, b) > 0);
ALTER TABLE k ADD CHECK (least(a, c, 5) > 0);
ALTER TABLE k ADD CHECK (num_nonnulls(a, b, c) = 1);
ALTER TABLE k ADD CHECK (num_nulls(h, i) < 2);
ALTER TABLE k ADD CHECK (concat(h, i) <> '');
ALTER TABLE k ADD CHECK (format('%s', a) <> '');
ALTER TABLE k ADD CHECK (concat_ws(',', h, i) <> '');
ALTER TABLE k ADD CHECK (concat(VARIADIC aa) <> '');
ALTER TABLE k ADD CHECK (jsonb_build_array(a, h) <> '[]');
ALTER TABLE k ADD CHECK (CASE WHEN a > 0 THEN b > 0 ELSE c > 0 END);
ALTER TABLE k ADD CHECK (CASE WHEN a = 1 THEN true WHEN a = 2 THEN false END);
ALTER TABLE k ADD CHECK (CASE a WHEN 1 THEN true ELSE false END);
ALTER TABLE k ADD CHECK (CASE h WHEN 'a' THEN 1 WHEN 'b' THEN 2 ELSE 3 END > 1);
ALTER TABLE k ADD CHECK
  (CASE WHEN a > 0 THEN CASE WHEN b > 0 THEN true ELSE false END ELSE true END);
ALTER TABLE k ADD CHECK (a > CASE WHEN o THEN 1 ELSE 2 END AND b > 0);
ALTER TABLE k ADD CHECK (CASE i WHEN 'a' THEN true ELSE o END);
ALTER TABLE k ADD CHECK (CASE d WHEN 1 THEN o END);
ALTER TABLE k ADD CHECK (CASE c WHEN 1 THEN o END);
ALTER TABLE k ADD CHECK (z[1] > 0);
ALTER TABLE k ADD CHECK (z[1:2] = '{1,2}');
ALTER TABLE k ADD CHECK (z[:2] <> '{}');
ALTER TABLE k ADD CHECK (z[a] = b);
ALTER TABLE k ADD CHECK (aa[1] = 'x');
ALTER TABLE k ADD CHECK (array_length(z, 1) < 5);
ALTER TABLE k ADD CHECK (z @> ARRAY[1]);
ALTER TABLE k ADD CHECK (aa && ARRAY['x', 'y']);
ALTER TABLE k ADD CHECK (cardinality(aa) > 0);
ALTER TABLE k ADD CHECK (z = ARRAY[1, 2]);
ALTER TABLE k ADD CHECK (z <> '{}');
ALTER TABLE k ADD CHECK (ARRAY[a, b] <> z);
ALTER TABLE k ADD CHECK (1 = ANY (z));
ALTER TABLE k ADD CHECK ('x' = ALL (aa));
ALTER TABLE k ADD CHECK (array_position(aa, 'x') IS NULL);
ALTER TABLE k ADD CHECK (z || a <> z);
ALTER TABLE k ADD CHECK (array_append(z, 1) <> z);
ALTER TABLE k ADD CHECK ((string_to_array(h, ','))[1] = 'x');
ALTER TABLE k ADD CHECK (z::bigint[] <> '{}');
ALTER TABLE k ADD CHECK (aa::varchar(2)[] <> '{}');
ALTER TABLE k ADD CHECK ((w['a']) IS NOT NULL);
ALTER TABLE k ADD CHECK (w['a']['b'] = '1');
ALTER TABLE k ADD CHECK (w ? 'a');
ALTER TABLE k ADD CHECK (w -> 'a' IS NOT NULL);
ALTER TABLE k ADD CHECK (w ->> 'a' = 'x');
ALTER TABLE k ADD CHECK ((w ->> 'n')::int > 0);
ALTER TABLE k ADD CHECK (w @> '{"a": 1}');
ALTER TABLE k ADD CHECK (w #>> '{a,b}' = 'c');
ALTER TABLE k ADD CHECK (jsonb_typeof(w) = 'object');
ALTER TABLE k ADD CHECK (v ->> 'x' <> '');
ALTER TABLE k ADD CHECK (w ?& ARRAY['a', 'b']);
ALTER TABLE k ADD CHECK (json_typeof(v) = 'object');
ALTER TABLE k ADD CHECK (x << '10.0.0.0/8');
ALTER TABLE k ADD CHECK (host(x) <> '');
ALTER TABLE k ADD CHECK (u <> '00000000-0000-0000-0000-000000000000');
ALTER TABLE k ADD CHECK (y <> '\x00');
ALTER TABLE k ADD CHECK (ae = B'10101010');
ALTER TABLE k ADD CHECK (af <> B'1');
ALTER TABLE k ADD CHECK (get_bit(ae, 0) = 1);
ALTER TABLE k ADD CHECK (ab = 'ok');
ALTER TABLE k ADD CHECK (ab > 'sad');
ALTER TABLE k ADD CHECK (ab IN ('sad', 'ok'));
ALTER TABLE k ADD CHECK (ac > 1);
ALTER TABLE k ADD CHECK (ac + 1 > 1);
ALTER TABLE k ADD CHECK ((ad).x > 0);
ALTER TABLE k ADD CHECK ((ad)."Y y" <> '');
ALTER TABLE k ADD CHECK (ad = ROW(1, 'x')::pair);
ALTER TABLE k ADD CHECK (ag @> 5);
ALTER TABLE k ADD CHECK (NOT isempty(ag));
ALTER TABLE k ADD CHECK (lower(ag) > 0);
ALTER TABLE k ADD CHECK (ak > 5);
ALTER TABLE k ADD CHECK (a::positive > 0);
ALTER TABLE k ADD CHECK (h::mood = 'ok');
ALTER TABLE k ADD CHECK (ROW(a, b) = ROW(1, 2));
ALTER TABLE k ADD CHECK ((a, b) < (c, d));
ALTER TABLE k ADD CHECK (ROW(a, h) >= ROW(1, 'x'));
ALTER TABLE k ADD CHECK ((a, b) <> (1, 2));
ALTER TABLE k ADD CHECK (ROW(a, b) IS DISTINCT FROM ROW(1, 2));
ALTER TABLE k ADD CHECK (plus_one(a) > 1);
ALTER TABLE k ADD CHECK (other.twice(a) > 1);
ALTER TABLE k ADD CHECK ("Odd Name"(h) <> '');
ALTER TABLE k ADD CHECK (many(a, b) = 2);
ALTER TABLE k ADD CHECK (many(VARIADIC z) = 2);
ALTER TABLE k ADD CHECK (named(a, c => b) > 1);
ALTER TABLE k ADD CHECK (a <+> b > 1);
ALTER TABLE k ADD CHECK (a OPERATOR(other.@@@) b > 1);
ALTER TABLE k ADD CHECK (!!! a < 0);
ALTER TABLE k ADD CHECK (a OPERATOR(pg_catalog.>) b);
ALTER TABLE k ADD CHECK (pg_catalog.length(h) > 0);
ALTER TABLE k ADD CHECK (h IS NORMALIZED);
ALTER TABLE k ADD CHECK (h IS NFC NORMALIZED);
ALTER TABLE k ADD CHECK (normalize(h, NFKD) = h);
ALTER TABLE k ADD CHECK (normalize(h) = h);
ALTER TABLE k ADD CHECK (h IS NOT NFD NORMALIZED);
ALTER TABLE k ADD CHECK (COLLATION FOR (h) <> '');
ALTER TABLE k ADD CHECK (starts_with(h, 'x'));
ALTER TABLE k ADD CHECK (h ^@ 'x');
ALTER TABLE k ADD CHECK (k IS NOT NULL);
ALTER TABLE k ADD CHECK (k.* IS NOT NULL);
ALTER TABLE k ADD CHECK (tableoid > 0);
ALTER TABLE k ADD CHECK ('t');
ALTER TABLE k ADD CHECK (true);
ALTER TABLE k ADD CHECK (1 = 1);
ALTER TABLE k ADD CHECK (NULL);
ALTER TABLE k ADD CHECK (NULL::bool);
ALTER TABLE k ADD CHECK (a = 1 AND true);
ALTER TABLE k ADD CHECK (a > 1 IS TRUE);
ALTER TABLE k ADD CHECK (o = (a > 1));
ALTER TABLE k ADD CHECK (o AND NOT (NOT o));
ALTER TABLE k ADD CHECK (NOT (o OR a > 1));
ALTER TABLE k ADD CHECK (NOT (a IS NULL));
ALTER TABLE k ADD CHECK (NOT a IN (1, 2));
ALTER TABLE k ADD CHECK ((a IS NULL) = (b IS NULL));
ALTER TABLE k ADD CHECK ((a IS NULL) <> o);
ALTER TABLE k ADD CHECK (((a IS NOT NULL)::int + (b IS NOT NULL)::int) = 1);
ALTER TABLE k ADD CHECK (a::bool);
ALTER TABLE k ADD CHECK (o::int = 1);
ALTER TABLE k ADD CHECK (to_char(q, 'YYYY') = '2020');
ALTER TABLE k ADD CHECK (r::date = p);
ALTER TABLE k ADD CHECK (q::time < s);
ALTER TABLE k ADD CHECK (q::timestamp(0) = q);
ALTER TABLE k ADD CHECK (t::interval(3) = t);
ALTER TABLE k ADD CHECK (t::interval hour to minute = t);
ALTER TABLE k ADD CHECK (e::numeric(4) > 0);
ALTER TABLE k ADD CHECK (e::numeric > 1);
ALTER TABLE k ADD CHECK (h::bytea <> y);
ALTER TABLE k ADD CHECK (a::"char" <> 'x');
ALTER TABLE k ADD CHECK (ae::bit(4) = B'1010');
ALTER TABLE k ADD CHECK (af::varbit(3) = B'101');
ALTER TABLE k ADD CHECK (x::cidr = '10.0.0.0/8');
ALTER TABLE k ADD CHECK (a::oid::regclass IS NOT NULL);
ALTER TABLE k ADD CHECK (v::jsonb = w);
ALTER TABLE k ADD CHECK (a::bigint + c > 0::bigint);
ALTER TABLE k ADD CHECK (a > 1::smallint);
ALTER TABLE k ADD CHECK (f > 1);
ALTER TABLE k ADD CHECK (g > 1::real);
ALTER TABLE k ADD CHECK (a > '1');
ALTER TABLE k ADD CHECK (ac::int > 0);
ALTER TABLE k ADD CHECK (now() > r - '1 day'::interval * a);
ALTER TABLE k ADD CONSTRAINT not_valid CHECK (a < 1000) NOT VALID;
ALTER TABLE k ADD CONSTRAINT not_enforced CHECK (a < 2000) NOT ENFORCED;
ALTER TABLE k ADD CONSTRAINT no_inherit CHECK (a < 3000) NO INHERIT;
ALTER TABLE k ADD CONSTRAINT "Odd Constraint" CHECK ((a < 4000)) NO INHERIT NOT VALID;
ALTER TABLE k ADD CONSTRAINT no_inherit_ne CHECK (a < 5000) NO INHERIT NOT ENFORCED;

CREATE INDEX ON k (lower(h));
CREATE INDEX ON k (lower(h), upper(i));
CREATE INDEX ON k ((a + b));
CREATE INDEX ON k (a, (b + 1), lower(h) DESC, c);
CREATE INDEX ON k ((h || i));
CREATE INDEX ON k ((w ->> 'a'));
CREATE INDEX ON k (((w ->> 'a')::int));
CREATE INDEX ON k ((w -> 'a' -> 'b'));
CREATE INDEX ON k ((a IS NULL));
CREATE INDEX ON k ((a > 0 AND b > 0));
CREATE INDEX ON k (coalesce(h, i));
CREATE INDEX ON k (coalesce(a, 0), greatest(a, b), nullif(a, b));
CREATE INDEX ON k ((CASE WHEN a > 0 THEN b END));
CREATE INDEX ON k (date_trunc('day', q));
CREATE INDEX ON k (EXTRACT(year FROM q));
CREATE INDEX ON k ((q::date));
CREATE INDEX ON k ((r AT TIME ZONE 'UTC'));
CREATE INDEX ON k (substring(h FROM 1 FOR 3));
CREATE INDEX ON k (left(h, 5) text_pattern_ops);
CREATE INDEX ON k (lower(h) COLLATE "C");
CREATE INDEX ON k (lower(h) COLLATE "C" text_pattern_ops DESC NULLS LAST);
CREATE INDEX ON k (lower(h COLLATE "C"));
CREATE INDEX ON k ((h COLLATE "C"));
CREATE INDEX ON k (((h || 'x') COLLATE "POSIX"));
CREATE INDEX ON k (abs(a) NULLS FIRST);
CREATE INDEX ON k (abs(a) DESC NULLS LAST);
CREATE INDEX ON k ((- a) DESC);
CREATE INDEX ON k (h COLLATE "C", i varchar_pattern_ops, j);
CREATE UNIQUE INDEX ON k (lower(i)) INCLUDE (a, b);
CREATE UNIQUE INDEX ON k (a) NULLS NOT DISTINCT;
CREATE UNIQUE INDEX ON k (b) WHERE o;
CREATE INDEX ON k (a) WHERE a > 0;
CREATE INDEX ON k (a) WHERE a > 0 AND b > 0;
CREATE INDEX ON k (a) WHERE a > 0 AND b > 0 AND (c > 0 OR d > 0);
CREATE INDEX ON k (a) WHERE a > 0 OR b > 0;
CREATE INDEX ON k (a) WHERE h IS NOT NULL;
CREATE INDEX ON k (a) WHERE NOT o;
CREATE INDEX ON k (a) WHERE o IS NOT TRUE;
CREATE INDEX ON k (a) WHERE h IN ('a', 'b');
CREATE INDEX ON k (a) WHERE i = 'x' AND j = 'y';
CREATE INDEX ON k (a) WHERE p > '2020-01-01' AND q < '2021-01-01';
CREATE INDEX ON k (a) WHERE w @> '{"x": 1}';
CREATE INDEX ON k (a) WHERE (w ->> 'deleted') IS NULL;
CREATE INDEX ON k (lower(h), a) INCLUDE (b) WHERE a > 0 AND lower(h) <> 'x';
CREATE INDEX ON k (a) WITH (fillfactor = 70, deduplicate_items = off) WHERE b > 0;
CREATE INDEX "Odd Index" ON k ("Mixed Case", "select") WHERE "Mixed Case" > 0;
CREATE INDEX ON k (plus_one(a), other.twice(b));
CREATE INDEX ON k ("Odd Name"(h));
CREATE INDEX ON k (many(a, b));
CREATE INDEX ON k (named(a, c => b));
CREATE INDEX ON k ((a <+> b));
CREATE INDEX ON k ((z[1]));
CREATE INDEX ON k (((ad).x));
CREATE INDEX ON k ((a::text));
CREATE INDEX ON k ((e::int));
CREATE INDEX ON k ((h::varchar(5)));
CREATE INDEX ON k ((ARRAY[a, b]));
CREATE INDEX ON k ((a = ANY (z)));
CREATE INDEX ON k (TRIM(BOTH FROM h));
CREATE INDEX ON k (timezone('UTC', r));
CREATE INDEX ON k ((a + b + c), (a * b), (a - b * c));
CREATE INDEX ON k USING hash (lower(h));
CREATE INDEX ON k USING gin (to_tsvector('english', h));
CREATE INDEX ON k USING gin (w jsonb_path_ops);
CREATE INDEX ON k USING gin ((w -> 'tags'));
CREATE INDEX ON k USING gist (ag);
CREATE INDEX ON k USING brin (q, (a + b));
CREATE INDEX ON k (coalesce(i, i), nullif(i, 'x'), greatest(i, i, ai),
  (CASE WHEN o THEN i ELSE i END));
CREATE INDEX ON k ((CASE WHEN o THEN i END), (CASE WHEN o THEN e ELSE 1.5 END), coalesce(e, e));
CREATE INDEX ON k ((e::numeric(5,1)), (h::varchar(3)), (j::char(2)), (q::timestamp(2)), (e + e));
CREATE INDEX ON k ((ARRAY[i, i]), (ARRAY[i, h]), (z[1:2]), (aa[1]), (aa::varchar(4)[]), (-e));
CREATE INDEX ON k ((i COLLATE "C"), lower(ah), (ah || h), (n::text), (h::name), ((ad)."Y y"));
CREATE INDEX ON k ((a = b), (h IS NULL), (o IS TRUE), (a IS DISTINCT FROM b), (NOT o), (o AND o));
CREATE INDEX ON k ((a::bigint), (a::text::varchar(5)), (ac + 1), ((ac)::int), (ac), (ab),
  (t::interval(3)));
