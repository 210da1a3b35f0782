"""From run folders to one page: tables, figures and verdicts. It reads run folders alone and never imports torch."""

from manyheads.spec.callable_room import make_callable

make_callable(__name__)
