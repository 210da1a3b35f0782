"""One architecture per file, top to bottom; `build(arch)` makes any record a module."""
