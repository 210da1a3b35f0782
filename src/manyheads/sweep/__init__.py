"""Where runs execute: this process, several on this machine, Ray, Slurm. Finished ones are skipped, killed ones
resumed."""
