alter table ps.published set unlogged
alter table ps.published set logged
drop role p1
drop role p2
alter schema ps owner to p1
alter schema ps owner to p2
alter schema public owner to p2
alter table ps.t owner to p2
alter table ps.t owner to p3
alter table ps.m owner to p1
alter sequence ps.s owner to p1
alter database pd owner to p1
alter database pd owner to p2
alter tablespace pt owner to p2
revoke p1 from p2
revoke admin option for p1 from p2
drop role p2
drop tablespace pt
begin; reassign owned by p2, p1 to p3; drop role p2; rollback
reassign owned by p2, p1 to p3
create role a
create role a
create user u1 password 'secret'
create group g1
create role pg_x
create role "public"
create role "none"
create role public
create role none
create role current_user
create role current_role
create role session_user
create role b superuser nosuperuser
create role b login login
create role b inherit connection limit 5 valid until '2031-02-03 04:05:06+01'
create role c noinherit connection limit -1 valid until 'infinity' createrole createdb replication bypassrls
create role d connection limit -2
create role d valid until 'nonsense'
create role d valid until 'May 4 12:00:00 2015 +1'
create role e sysid 77
create role e2 sysid 1 sysid 2
create role f in role a, b role c admin d
create role f3 in group a
create role x1 in role nosuch
create role x1 role nosuch
create role x1 admin nosuch
create role x1 role x1
create role x1 in role x1
create role x1 unencrypted password 'x'
create role x1 nonsense
create role m1 password 'md5c4ca4238a0b923820dcc509a6f75849b'
create role m2 password ''
create role m3 password null
create role m4 encrypted password 'x' password 'y'
set password_encryption = md5; create role m5 password 'secret'
set md5_password_warnings = off; create role m6 password 'md5c4ca4238a0b923820dcc509a6f75849b'
create role m7 password 'SCRAM-SHA-256$1:c2FsdA==$uINR7QnKPLnbwDMBLE5gdpKbLGKgcnuqbjOVZhHaPlI=:AKVYPDTUqbzBHcWBSPe0RaVMsjRKWRMxb0ATxqcWTj8='
create role m8 password 'SCRAM-SHA-256$4096:c2FsdA==$x:y'
alter role m1 rename to m1b
alter role m5 rename to m5b
alter role u1 rename to u1b
alter role u1b rename to u1
alter role m1b password 'x' connection limit 3
alter role m1b password ''
alter role nosuch login
alter role pg_monitor login
alter role pg_monitor set work_mem = '2MB'
alter role pg_monitor rename to x
alter role a rename to pg_x
alter role a rename to b
alter role a rename to a
alter role nosuch rename to x
alter role postgres rename to x
alter role postgres nosuperuser
alter role current_user rename to x
alter role current_user connection limit 7
alter role current_user connection limit -1
alter role session_user valid until 'infinity'
alter role a role b
alter role a admin b
alter role a in role b
alter role a sysid 3
alter role a user c
alter role a nonsense
alter user a login
alter group a add user d
alter group a drop user d
alter group a drop user d
alter group nosuch add user d
alter group a add user nosuch
alter role none login
alter role public login
grant a to b
grant a to b
grant a to a
grant a to c with admin option
grant a to c with admin true, set false
grant a to c with inherit true
grant a to c with inherit option, set true
grant a to d with nonsense true
grant a to d with admin nonsense
grant a, b to d
grant a, nosuch to d
grant a to nosuch
grant nosuch to alsonosuch
grant a to public
grant a to none
grant b to a
grant pg_monitor to a
grant pg_database_owner to a
grant a to pg_database_owner
revoke a from d
revoke a from d
revoke admin option for a from c
revoke inherit option for a from c
revoke set option for a from c
revoke set option for a from nosuch
revoke set option for a from e
revoke a, b from d, c
revoke a from public
create role r0
create role r1
create role r2
create role r3
create role r4
grant r0 to r1 with admin option
grant r0 to r2 granted by r1
grant r0 to r2 with admin option granted by r1
grant r0 to r2 with admin option granted by r1
grant r0 to r3 with admin option granted by r2
grant r0 to r1 with admin option granted by r2
grant r0 to r1 with admin option granted by r3
grant r0 to r1 granted by r3
grant r0 to postgres with admin option granted by r1
grant r0 to r4 granted by r4
grant r0 to r4 granted by nosuch
grant r0 to r4 granted by r0
grant r0 to r4 granted by r3
grant r0 to r4 granted by postgres
grant r0 to r4 granted by current_user
grant r0 to r4 granted by session_user
revoke r0 from r1
revoke admin option for r0 from r1
revoke admin option for r0 from r1 restrict
revoke inherit option for r0 from r1
revoke r0 from r2
revoke r0 from r2 granted by r1
revoke r0 from r4 granted by r3
revoke r0 from r4 granted by r3
grant r0 to r4 granted by r3
drop role r3
drop role r1
begin; drop role r0; rollback
begin; drop role r1, r2, r3, r4; rollback
begin; drop role r1, r2, r3, r4, r0; rollback
begin; drop owned by r2; drop role r2; rollback
begin; drop owned by r1; select admin_option, inherit_option, set_option from pg_auth_members where member > 16383 order by oid; rollback
begin; revoke admin option for r0 from r1 cascade; select admin_option, inherit_option, set_option from pg_auth_members where member > 16383 order by oid; rollback
begin; revoke r0 from r1 cascade; rollback
grant r0 to r2 with admin option
begin; revoke r0 from r2 granted by r1; rollback
revoke r0 from r1
revoke r0 from r2, r1
revoke r0 from r1 cascade
drop role r0, r1, r2
drop role r0, r1, r2, r3
drop role r3, r4, r4
drop role nosuch
drop role if exists nosuch, alsonosuch
drop role current_user
drop role if exists session_user
drop role postgres
drop role pg_monitor
drop role public
drop role none
drop user m2
drop group m3
create schema s authorization a
create schema authorization b
create schema pg_x
create schema s
create schema if not exists s
create schema if not exists s authorization nosuch
create schema t authorization nosuch
create schema t authorization pg_monitor
create table s.t (x int primary key, y text, z serial)
create unlogged table s.u (x int unique)
alter table s.t owner to b
alter table s.t owner to nosuch
alter table s.t owner to pg_database_owner
alter table s.t owner to current_user
alter table s.t owner to b
alter sequence s.t_z_seq owner to c
alter schema s owner to c
alter schema s owner to nosuch
alter schema nosuch owner to c
alter schema s rename to t
alter schema s rename to pg_x
alter schema s rename to "S 1"
alter schema nosuch rename to x
alter schema "S 1" rename to s1
create collation s1.c from "C"
create collation s1.c from "C"
create collation if not exists s1.c from "C"
create collation s1.d (provider = libc, locale = 'C')
create collation s1.e (provider = builtin, locale = 'C.UTF-8')
create collation s1.e2 (provider = builtin, locale = 'nonsense')
create collation s1.f (provider = nonsense, locale = 'C')
create collation s1.f (locale = 'nosuch_LOCALE')
create collation s1.f (locale = 'C', locale = 'C')
create collation s1.f (locale = 'C', lc_collate = 'C')
create collation s1.f (lc_collate = 'C')
create collation s1.f (lc_collate = 'C', lc_ctype = 'POSIX')
create collation s1.f2 (nonsense = 'C')
create collation s1.f2 ()
create collation s1.g (provider = icu, locale = 'en')
create collation s1.h (provider = icu, locale = 'und', deterministic = false)
create collation s1.i (provider = libc, locale = 'C', deterministic = false)
create collation nosuch.c from "C"
create collation s1.j from nosuch
create collation s1.k from "default"
create collation s1.l (locale = 'C', version = '77')
alter collation s1.c rename to d
alter collation s1.c rename to c2
alter collation s1.nosuch rename to c2
alter collation s1.c2 owner to a
alter collation s1.c2 owner to nosuch
alter collation s1.c2 set schema public
alter collation c2 set schema nosuch
alter collation c2 set schema public
alter collation s1.c2 set schema public
alter collation s1.d refresh version
alter collation s1.l refresh version
alter collation "C" refresh version
alter collation "default" refresh version
alter collation nosuch refresh version
create table s1.v (x text collate s1.g, y text collate c2, z text collate s1.e)
create index on s1.v (x collate s1.d, (y || 'x') collate s1.e)
drop collation s1.g
drop collation s1.d
drop collation c2 restrict
begin; drop collation s1.e cascade; rollback
begin; drop collation s1.d, c2 cascade; rollback
drop collation nosuch
drop collation if exists nosuch, s1.nosuch, nosuch.x
drop collation "C"
drop collation "default"
drop collation s1.h, s1.l
comment on role a is 'a role'
comment on role nosuch is 'x'
comment on role a is ''
comment on role b is 'of b'
comment on tablespace pg_default is 'where'
comment on tablespace pg_default is null
comment on tablespace nosuch is 'x'
comment on schema s1 is 'schema'
comment on schema nosuch is 'x'
comment on database postgres is 'base'
comment on database nosuch is 'x'
comment on table s1.t is 'table'
comment on table s1.t_pkey is 'x'
comment on index s1.t is 'x'
comment on index s1.t_pkey is 'index'
comment on sequence s1.t_z_seq is 'sequence'
comment on sequence s1.t is 'x'
comment on column s1.t.x is 'column'
comment on column s1.t.nosuch is 'x'
comment on column s1.t_pkey.x is 'x'
comment on column x is 'x'
comment on table nosuch.x is 'x'
comment on table nosuch is 'x'
create tablespace ts location ''
create tablespace ts location ''
create tablespace pg_ts location ''
create tablespace ts2 location 'relative'
create tablespace ts2 location '/nonexisting/directory'
create tablespace ts2 location '/non''existing'
create tablespace ts2 owner nosuch location ''
create tablespace ts2 owner a location ''
begin; create tablespace ts3 location ''; commit
alter tablespace ts rename to ts2
alter tablespace ts rename to pg_x
alter tablespace ts rename to ts1
alter tablespace nosuch rename to ts
alter tablespace ts1 owner to b
alter tablespace ts1 owner to nosuch
alter tablespace nosuch owner to b
drop tablespace nosuch
drop tablespace if exists nosuch
drop tablespace pg_default
drop tablespace pg_global
create table s1.w (x int primary key using index tablespace ts2, y text) tablespace ts1
create table s1.w2 (x int) tablespace pg_global
create table s1.w2 (x int) tablespace nosuch
drop tablespace ts1
alter table s1.w set tablespace nosuch
alter table s1.w set tablespace pg_global
alter table s1.w set tablespace ts2
alter table s1.w set tablespace ts2
alter index s1.w_pkey set tablespace ts1
alter index s1.w_pkey set tablespace pg_default
alter table s1.t set logged
alter table s1.t set unlogged
alter table s1.t set unlogged
alter table s1.t set logged
alter sequence s1.t_z_seq set unlogged
alter sequence s1.t_z_seq set logged
create temp table tt (x int) tablespace ts1; alter table tt set unlogged
create temp table tt (x int); alter table tt set tablespace ts1
alter table s1.u set logged, set unlogged
alter table s1.u set logged, set tablespace ts1
create table s1.k1 (x int primary key); create unlogged table s1.k2 (x int references s1.k1)
create unlogged table s1.k3 (x int primary key); create table s1.k4 (x int references s1.k3)
alter table s1.k1 set unlogged
alter table s1.k2 set logged
alter table s1.k1 set unlogged
set default_tablespace = ts1; create table s1.dt (x int primary key, y text)
set default_tablespace = nosuch
set default_tablespace = pg_global
select relname, reltablespace = 0 from pg_class where relname like 'dt%' order by 1
truncate s1.dt, s1.w
reindex table s1.dt
create database pg_x connection limit 5
create database pg_x
create database x2 template nosuch
create database x2 owner nosuch
create database x2 strategy 'nonsense'
create database x2 strategy file_copy tablespace ts1 owner a is_template true allow_connections false
create database x3 tablespace pg_global
create database x3 tablespace nosuch
create database x3 connection limit -2
create database x3 oid 100
create database x3 oid 20000
create database x4 oid 20000
create database x4 nonsense 3
create database x4 template template0 locale 'nosuch_LOCALE'
create database x4 template template1 locale 'POSIX'
create database x5 template template0 locale_provider builtin builtin_locale 'C.UTF-8'
create database x6 template template0 locale_provider icu icu_locale 'de'
create database x7 template template0 locale_provider nonsense
create database x7 template template0 locale_provider icu
create database x7 location '/x'
alter database x3 rename to x2
alter database x3 rename to x9
alter database nosuch rename to x8
alter database postgres rename to x8
alter database x9 owner to b
alter database x9 owner to nosuch
alter database nosuch owner to b
alter database x9 connection limit 3 is_template true
alter database x9 connection limit -3
alter database x9 with allow_connections false
alter database postgres allow_connections false
alter database x9 nonsense 3
alter database x9 is_template nonsense
alter database nosuch is_template false
alter database x9 set work_mem = '3MB'
alter database x9 set work_mem = 'nonsense'
alter database x9 set nonsense = 3
alter database x9 set max_connections = 5
alter database nosuch set work_mem = '3MB'
alter database x9 reset work_mem
alter database x9 reset nonsense
alter database x9 set search_path = s1, "$user", public
alter role a set work_mem = '4MB'
alter role a in database x9 set work_mem = '5MB'
alter role a in database nosuch set work_mem = '5MB'
alter role a in database x9 set search_path = 'x', 'y'
alter role a set datestyle = 'ISO, DMY'
alter role a set datestyle to default
alter role all set statement_timeout = 0
alter role all in database x9 set work_mem = '6MB'
alter role all reset all
alter role nosuch set work_mem = '4MB'
alter role a set role = 'b'
alter role a set server_version = '3'
alter role a in database x9 reset work_mem
alter role b set work_mem = '7MB'
alter role b reset all
alter database x9 refresh collation version
alter database nosuch refresh collation version
drop database nosuch
drop database if exists nosuch
drop database x9
drop database postgres
drop database template0
alter database x9 is_template false
drop database x9 with (nonsense)
drop database x9 with ()
drop database x9 with (force, force)
drop database x2
drop database if exists x5 with (force)
begin; drop database x6; commit
begin; create database x10; commit
drop database x6
reassign owned by postgres to a
reassign owned by a to nosuch
reassign owned by nosuch to a
reassign owned by pg_monitor to a
drop owned by postgres
drop owned by nosuch
drop role a
drop role b, c
drop role c
reassign owned by a, b to c
drop role a
drop role b
drop schema s1
drop schema nosuch
drop schema if exists nosuch
drop schema pg_catalog
drop schema s1, b
begin; drop schema s1 cascade; rollback
begin; drop owned by c; rollback
begin; drop owned by c cascade; rollback
reassign owned by c to current_user
drop role c
drop role if exists a, b, c
alter schema s1 rename to s2
drop tablespace ts1
drop tablespace ts2
checkpoint
create database y1 template postgres tablespace ts1
drop table s2.w, s2.dt, s2.k1, s2.k2
checkpoint
create database y1 template postgres tablespace ts1
create database y2 template y1 strategy file_copy
drop tablespace ts1
drop database y1
drop database y2
drop tablespace ts1
drop tablespace ts2
