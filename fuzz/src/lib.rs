//! What the fuzz targets run. The functions are in a file of their own, because the tests of `forebay-format` run them too.

pub mod entry;
