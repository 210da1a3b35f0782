"""Where runs execute: in this process, in several on this machine, with Ray or Slurm. Finished runs are skipped, killed
ones resumed."""
