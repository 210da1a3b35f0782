"""Where runs execute: this process, or several on this machine. Finished ones are skipped, killed ones resumed."""
