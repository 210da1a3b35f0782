"""Commands that behave as Slurm's do, as far as submitit asks: sbatch runs a job's script here, scontrol runs it again,
sacct says how it stands. Real Slurm needs daemons, root and a configuration."""

from __future__ import annotations

import sys
from pathlib import Path

SBATCH = """
number=$(( $(ls "$home" | grep -c '[.]sh$') + 1 ))
cp "$1" "$home/$number.sh"
tasks=$(sed -n 's/^#SBATCH --array=0-\\([0-9]*\\)%.*/\\1/p' "$1")
for index in $(seq 0 "${tasks:-0}"); do
    setsid "$home/start" "$number" "${tasks:+$index}" >/dev/null 2>&1 </dev/null &
done
echo "Submitted batch job $number"
"""
START = """
export SLURM_JOB_ID=$1 SLURM_PROCID=0 SLURM_NTASKS=1
name=$1
if [ -n "$2" ]; then export SLURM_ARRAY_JOB_ID=$1 SLURM_ARRAY_TASK_ID=$2; name=$1_$2; fi
again=yes
while [ -n "$again" ]; do
    echo RUNNING > "$home/$name.state"
    rm -f "$home/$name.again"
    bash "$home/$1.sh"
    code=$?
    again=$(cat "$home/$name.again" 2>/dev/null)
done
if [ $code = 0 ]; then echo COMPLETED > "$home/$name.state"; else echo CANCELLED > "$home/$name.state"; fi
"""
SRUN = """
while [ "${1#-}" != "$1" ]; do case $1 in --output|--error) shift 2;; *) shift;; esac; done
exec "$@"
"""
SACCT = """
echo 'JobID|State|NodeList'
for file in "$home"/*.state; do [ -f "$file" ] && echo "$(basename "$file" .state)|$(cat "$file")|here"; done
exit 0
"""
SCONTROL = 'echo yes > "$home/$2.again"'


def install(folder: Path) -> Path:
    """Put the commands in a folder, which goes first in PATH."""
    return commands(folder, sbatch=SBATCH, start=START, srun=SRUN, sacct=SACCT, scontrol=SCONTROL)


def commands(folder: Path, **texts: str) -> Path:
    """Put commands with these texts in a folder, which goes first in PATH."""
    folder.mkdir()
    here = Path(sys.executable).parent
    for name, text in texts.items():
        file = folder / name
        file.write_text(f'#!/bin/bash\nhome="{folder}"\nPATH="{here}:$PATH"\n{text.strip()}\n')
        file.chmod(0o755)
    return folder


def submitted(folder: Path) -> list[str]:
    """The scripts that were submitted."""
    return [file.read_text() for file in sorted(folder.glob("*.sh"))]
