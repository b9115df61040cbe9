# Prints the pages on standard input as lines "page offset byte" of their bytes that are not zero.
binmode STDIN;
for (my $page = 0; read(STDIN, my $bytes, 8192); $page++) {
    my @bytes = unpack("C*", $bytes);
    for my $at (0 .. $#bytes) {
        print "$page $at $bytes[$at]\n" if $bytes[$at];
    }
}
