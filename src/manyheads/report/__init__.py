"""From run folders to one page: tables, figures and verdicts. Reads runs alone; torch is never imported."""
