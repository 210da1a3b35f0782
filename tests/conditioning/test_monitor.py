"""The probe of one's own loop runs when it is due, on the same batch, and hands its readings on."""

from __future__ import annotations

import json

import pytest
import torch
from torch.nn import functional as F

from manyheads.conditioning.monitor import Probe, ProbeReading
from manyheads.conditioning.probe import probe, summary
from manyheads.models.build import build
from manyheads.spec.errors import UserError
from manyheads.spec.recipe import Rates
from tests.models.tiny import ORIGINALS, inputs

ARCH = ORIGINALS["vit"]


def losses(monitor: Probe | None) -> list[float]:
    """A short training, with a monitor or without."""
    model = build(ARCH, Rates(dropout=0.1), seed=0).train()
    torch.manual_seed(0)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    out = []
    for step in range(5):
        loss = F.cross_entropy(model(*inputs(ARCH)), torch.tensor([1, 2]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        out.append(loss.item())
        if monitor is not None:
            monitor.probe_if_due(step, model)
    return out


def test_readings_come_when_due_and_leave_the_losses_alone() -> None:
    monitor = Probe(every=2, batch=inputs(ARCH))
    assert losses(monitor) == losses(None)
    assert [reading.step for reading in monitor.readings] == [0, 2, 4]
    assert monitor.readings[0].sites != monitor.readings[1].sites


def test_a_callback_takes_the_readings() -> None:
    taken: list[ProbeReading] = []
    monitor = Probe(every=3, batch=inputs(ARCH), callback=taken.append)
    model = build(ARCH, seed=0)
    assert monitor.probe_if_due(1, model) is None
    assert monitor.probe_if_due(3, model) is taken[0]
    assert monitor.readings == []
    assert taken[0].sites == probe(model, inputs(ARCH))


def test_a_reading_is_lines_for_a_file_and_scalars_for_a_tracker() -> None:
    reading = ProbeReading(7, probe(build(ARCH, seed=0), inputs(ARCH)))
    lines = [json.loads(json.dumps(record, allow_nan=False)) for record in reading.records()]
    assert [(line["step"], line["name"]) for line in lines] == [(7, site.name) for site in reading.sites]
    found = summary(reading.sites)["softmax"]
    assert reading.scalars() == {
        "log_kappa/softmax": found.mean_log_kappa,
        "centred_log_kappa/softmax": found.mean_centred_log_kappa,
    }


def test_never_is_no_interval() -> None:
    with pytest.raises(UserError, match="write 1 or more"):
        Probe(every=0, batch=None)


def test_a_reading_says_what_was_left_out() -> None:
    arch = ORIGINALS["xcit"]
    sites = probe(build(arch, seed=0), inputs(arch))
    assert ProbeReading(0, sites).left_out == sites.left_out != ()
