"""From run folders to one page: tables, figures and verdicts. It reads run folders alone and never imports torch."""
