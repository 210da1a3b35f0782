"""timm builds, adapts, trains, saves and loads manyheads models with its own tools."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from manyheads.arch import zoo
from manyheads.arch.count import params
from manyheads.arch.redesign import redesign
from manyheads.interop.emit import emit
from manyheads.models.build import build
from manyheads.spec import serialise as record
from manyheads.spec.errors import UserError
from tests.models.tiny import ORIGINALS, inputs, variants

timm = pytest.importorskip("timm", reason="timm is in the vision extra")
door = pytest.importorskip("manyheads.interop.timm", reason="timm is in the vision extra")
VISION = ("vit", "deit_distilled", "xcit", "tnt", "volo", "davit")


def test_originals_are_registered_and_redesigned_by_keyword() -> None:
    assert "manyheads_vit_b" in timm.list_models("manyheads_*")
    with torch.device("meta"):
        model = timm.create_model("manyheads_vit_b", depth=7, heads=16, mlp_dim=1536)
    assert sum(p.numel() for p in model.parameters()) == 40_112_872
    assert model.arch == redesign(zoo.get("vit_b"), depth=7, heads=16, mlp_dim=1536)


@pytest.mark.parametrize("name", VISION)
@pytest.mark.parametrize("kind", ["fixed", "split"])
def test_an_emitted_design_is_the_design(name: str, kind: str, tmp_path: Path) -> None:
    arch = variants(name)[kind]
    emit(arch, "timm", tmp_path, name)
    model = timm.create_model(f"local-dir:{tmp_path}").eval()
    twin = build(arch, seed=1).eval()
    model.load_state_dict(twin.state_dict())
    (images,) = inputs(arch)
    with torch.no_grad():
        assert torch.equal(model(images), twin(images))
        assert torch.equal(model.forward_head(model.forward_features(images)), twin(images))
    assert sum(p.numel() for p in model.parameters()) == params(arch).total


def test_classes_channels_image_size_and_rates_are_honoured() -> None:
    model = timm.create_model(
        "manyheads_vit_ti",
        depth=2,
        num_classes=10,
        img_size=64,
        in_chans=1,
        drop_rate=0.2,
        drop_path_rate=0.1,
        attn_drop_rate=0.3,
        proj_drop_rate=0.4,
    )
    images = torch.randn(2, 1, 64, 64)
    assert model(images).shape == (2, 10)
    assert model.forward_features(images).shape == (2, 17, 192)
    assert model.forward_head(model.forward_features(images), pre_logits=True).shape == (2, 192)
    assert model.pretrained_cfg["input_size"] == (1, 64, 64)
    assert (model.pretrained_cfg["num_classes"], model.num_classes, model.num_features) == (10, 10, 192)
    assert model.head.drop.p == 0.2
    assert (model.blocks[1].attention.path.rate, model.blocks[0].attention.op.rate) == (0.1, 0.3)
    from timm.data import resolve_model_data_config

    assert resolve_model_data_config(model)["input_size"] == (1, 64, 64)


@pytest.mark.parametrize("name", VISION)
def test_the_classifier_can_be_exchanged_or_taken_off(name: str) -> None:
    arch = ORIGINALS[name]
    model = timm.create_model("manyheads", arch=arch).eval()
    (images,) = inputs(arch)
    model.reset_classifier(5)
    assert model(images).shape == (2, 5)
    assert model.arch.head.classes == 5
    model.reset_classifier(0)
    assert model(images).shape == (2, arch.stages[-1].width)
    assert isinstance(model.get_classifier(), torch.nn.Identity)
    bare = timm.create_model("manyheads", arch=arch, num_classes=0).eval()
    assert bare(images).shape == (2, arch.stages[-1].width)
    model.reset_classifier(3)
    assert model(images).shape == (2, 3)


def test_a_training_step_with_timms_optimizer_loss_and_average() -> None:
    from timm.loss import SoftTargetCrossEntropy
    from timm.optim import create_optimizer_v2
    from timm.utils import ModelEmaV3

    arch = ORIGINALS["davit"]
    model = timm.create_model("manyheads", arch=arch)
    optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-2, weight_decay=0.3, layer_decay=0.7)
    assert len({group["lr_scale"] for group in optimizer.param_groups}) > 4  # blocks are told apart
    average = ModelEmaV3(model)
    (images,), targets = inputs(arch, 4), torch.eye(7)[[0, 1, 2, 3]]
    losses = []
    for _ in range(3):
        loss = SoftTargetCrossEntropy()(model(images), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update(model)
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_positions_do_not_decay() -> None:
    model = timm.create_model("manyheads", arch=ORIGINALS["vit"])
    assert model.no_weight_decay() == {"embed.positions", "embed.class_tokens"}


def test_a_folder_round_trips_also_to_another_image_size(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    arch = ORIGINALS["vit"]
    emit(arch, "timm", tmp_path, "vit")
    model = timm.create_model(f"local-dir:{tmp_path}").eval()
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    again = timm.create_model(f"local-dir:{tmp_path}", pretrained=True).eval()
    (images,) = inputs(arch)
    assert torch.equal(model(images), again(images))
    larger = timm.create_model(f"local-dir:{tmp_path}", pretrained=True, img_size=64)
    assert larger(torch.randn(1, 3, 64, 64)).shape == (1, 7)
    assert torch.equal(larger.blocks[0].mlp.op.inp.weight, model.blocks[0].mlp.op.inp.weight)
    other = timm.create_model(f"local-dir:{tmp_path}", pretrained=True, num_classes=3)
    assert torch.equal(other.blocks[0].mlp.op.inp.weight, model.blocks[0].mlp.op.inp.weight)


def test_a_record_file_and_a_name_of_ones_own(tmp_path: Path) -> None:
    record.save(ORIGINALS["vit"], tmp_path / "lean.json")
    assert timm.create_model("manyheads", arch=str(tmp_path / "lean.json")).arch == ORIGINALS["vit"]
    assert door.register("my_lean_vit", ORIGINALS["vit"]) == "my_lean_vit"
    assert timm.create_model("my_lean_vit", num_classes=3)(inputs(ORIGINALS["vit"])[0]).shape == (2, 3)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "needs a record"),
        ({"arch": ORIGINALS["gpt2"]}, "timm holds image classifiers"),
        ({"arch": ORIGINALS["vit"], "global_pool": "avg"}, "pools by 'token'"),
        ({"arch": ORIGINALS["vit"], "window_size": 7}, "was given window_size"),
        ({"arch": ORIGINALS["vit"], "img_size": (32, 64)}, "square images"),
        ({"arch": ORIGINALS["vit"], "global_pool": ""}, "with num_classes=0"),
    ],
)
def test_what_cannot_be_honoured_is_refused(arguments: dict, says: str) -> None:
    with pytest.raises(UserError, match=says):
        timm.create_model("manyheads", **arguments)


def test_features_that_are_not_there_are_refused() -> None:
    model = timm.create_model("manyheads", arch=ORIGINALS["vit"])
    with pytest.raises(UserError, match="at 3 places; write the last so many"):
        model.forward_intermediates(inputs(ORIGINALS["vit"])[0], [3])
    with pytest.raises(UserError, match="write 'NCHW' or 'NLC'"):
        model.forward_intermediates(inputs(ORIGINALS["vit"])[0], output_fmt="NHWC")
    with pytest.raises(UserError, match="write 32 or 40"):
        model.set_input_size(36)


def test_a_head_of_class_token_and_patches_is_exchanged_at_its_width() -> None:
    arch = replace(ORIGINALS["vit"], head=replace(ORIGINALS["vit"].head, pool="class_and_patches"))
    model = timm.create_model("manyheads", arch=arch, num_classes=0)
    assert model(inputs(arch)[0]).shape == (2, model.head_hidden_size) == (2, 64)
    model.reset_classifier(4)
    assert model(inputs(arch)[0]).shape == (2, 4)


def test_no_weights_are_promised() -> None:
    with pytest.raises(RuntimeError, match="No pretrained weights"):
        timm.create_model("manyheads_vit_ti", pretrained=True)


@pytest.mark.parametrize("name", ["vit_ti", "deit_ti", "xcit_s12", "tnt_s", "volo_d1", "davit_t"])
def test_layers_get_rates_of_their_own(name: str) -> None:
    from timm.optim import create_optimizer_v2

    with torch.device("meta"):
        model = timm.create_model(f"manyheads_{name}")
    groups = create_optimizer_v2(model, opt="adamw", lr=1e-3, layer_decay=0.75).param_groups
    assert len({round(group["lr_scale"], 6) for group in groups}) > 3


def test_a_distilled_model_in_training_gives_one_row_an_image_unless_asked_for_both() -> None:
    model = timm.create_model("manyheads_deit_ti_distilled", num_classes=5).train()
    images = torch.randn(2, 3, 224, 224)
    assert model(images).shape == (2, 5)
    model.set_distilled_training()
    assert model(images).shape == (2, 2, 5)
