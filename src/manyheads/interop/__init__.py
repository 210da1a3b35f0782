"""Side doors to other libraries, imported by users and the command line only."""
