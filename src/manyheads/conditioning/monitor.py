"""`Probe`: call the probe every so many steps of your own training loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jaxtyping import Bool
from torch import Tensor, nn

from manyheads.spec.errors import UserError

from .attention_modules import AttentionModule
from .probe import Site, Sites, as_record, probe, summary
from .tap_table import Tap


@dataclass(frozen=True)
class ProbeReading:
    """The sites of one probe, and the training step at which it ran."""

    step: int
    sites: tuple[Site, ...]

    @property
    def left_out(self) -> tuple[AttentionModule, ...]:
        """The attention-like modules of which nothing was measured, with the reasons."""
        return self.sites.left_out if isinstance(self.sites, Sites) else ()

    def records(self) -> list[dict[str, Any]]:
        """A plain record for each site, for a file of JSON lines."""
        return [{"step": self.step} | as_record(site) for site in self.sites]

    def scalars(self) -> dict[str, float]:
        """The numbers that a tracker plots, for each kind of attention: mean log kappa over layers, raw and centred."""
        out = {}
        for kind, layers in summary(self.sites).items():
            out[f"log_kappa/{kind}"] = layers.mean_log_kappa
            out[f"centred_log_kappa/{kind}"] = layers.mean_centred_log_kappa
        return out


class Probe:
    """Probes a model at step 0 and every `every` steps, always on the same `batch`.

        monitor = Probe(every=50, batch=images[:8])
        for step in range(steps):
            ...
            monitor.probe_if_due(step, model)
        monitor.readings[-1].scalars()

    Readings are appended to `readings`, or passed to `callback` if one is given. The other options are those of
    `probe`."""

    def __init__(
        self,
        *,
        every: int,
        batch: Any,
        mask: Bool[Tensor, "... tokens"] | None = None,
        detail: bool = False,
        taps: Mapping[str, Tap] | None = None,
        callback: Callable[[ProbeReading], None] | None = None,
    ) -> None:
        if every < 1:
            raise UserError(f"every={every}: the probe runs every so many steps; write 1 or more")
        self.every, self.batch, self.mask = every, batch, mask
        self.detail, self.taps = detail, taps
        self.readings: list[ProbeReading] = []
        self.callback = callback or self.readings.append

    def due(self, step: int) -> bool:
        """Whether the probe runs at this step."""
        return step % self.every == 0

    def probe_if_due(self, step: int, model: nn.Module) -> ProbeReading | None:
        """The reading of this step, or None where no probe is due. The model may be compiled or wrapped."""
        if not self.due(step):
            return None
        reading = ProbeReading(step, probe(model, self.batch, mask=self.mask, detail=self.detail, taps=self.taps))
        self.callback(reading)
        return reading
