# records.pl <pg_wal> <segment size> <output of pg_waldump> <records> <their lines> [managers]
# Picks records of some resource managers: of each kind the first ones, and fewer of those that are
# about system catalogs. Writes the records one behind the other, and pg_waldump's lines.
use strict;
use warnings;
my ($wal, $size, $dump, $records, $lines, $managers) = @ARGV;
$managers //= 'Heap,Heap2,MultiXact,Transaction,CLOG,Standby';
my %wanted = map { $_ => 1 } split(/,/, $managers);
open(my $in, '<', $dump) or die;
open(my $out, '>:raw', $records) or die;
open(my $told, '>', $lines) or die;

# The bytes at a position, without page headers.
sub bytes_at {
    my ($at, $len) = @_;
    my $found = '';
    while (length($found) < $len) {
        $at += ($at % $size == 0) ? 40 : 24 if $at % 8192 == 0;
        my $name = sprintf('%08X%08X%08X', 1, int($at / 2**32), ($at % 2**32) / $size);
        open(my $file, '<:raw', "$wal/$name") or die "$name";
        seek($file, $at % $size, 0);
        my $piece = $len - length($found);
        my $left = 8192 - $at % 8192;
        $piece = $left if $left < $piece;
        read($file, my $bytes, $piece) == $piece or die;
        $found .= $bytes;
        $at += $piece;
    }
    return $found;
}

my %seen;
while (<$in>) {
    my ($rmgr, $total, $high, $low, $kind) =
        m{rmgr: (\S+)\s+len .*/\s*(\d+), tx: .*, lsn: (\w+)/(\w+), prev \S+ desc: (\S+)} or next;
    next unless $wanted{$rmgr};
    my $catalog = m{rel \d+/\d+/(\d+)} && $1 < 16384;
    my $image = m{FPW} ? 1 : 0;
    my $flags = m{flags: (\w+)} ? $1 : '';
    $flags .= " $1" while m{(origin|rels|subxacts|inval|dropped)}g;
    $flags .= " $1" while m{(postingoff: [1-9]|nupdated: [1-9]|level: [1-9])}g;
    my $key = "$rmgr $kind $image" . ($catalog ? ' catalog' : " $flags");
    my $limit = $rmgr eq 'MultiXact' ? 20 : $catalog ? 1 : $image ? 2 : 6;
    next if $seen{$key}++ >= $limit || $image && $catalog;
    print $out bytes_at(hex($high) * 2**32 + hex($low), $total);
    chomp;
    print $told substr($_, 0, 400), "\n";
}
