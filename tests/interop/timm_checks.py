"""What timm's own tests ask of every model, written anew: a function for each promise, called with the name of a family.
A `UserError` says that the family refuses it, and why."""

from __future__ import annotations

import copy
import pickle
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import timm
import timm.optim
import torch
from safetensors.torch import save_file
from timm.models import create_feature_extractor
from torch import Tensor

import manyheads.interop.timm  # noqa: F401 (registers the models)
from manyheads.interop.emit import emit
from manyheads.spec.parts import Norm
from tests.models.tiny import ORIGINALS, inputs

_VIT = ORIGINALS["vit"]
FAMILIES = {name: ORIGINALS[name] for name in ("vit", "deit_distilled", "xcit", "tnt", "tnt_legacy", "volo", "davit")}
FAMILIES["vit_registers"] = replace(  # with all that stands in front of the patches, as DINOv2 and CLIP have it
    _VIT,
    embed=replace(_VIT.embed, class_positions=False, registers=2, bias=False, norm=Norm()),
    stages=(replace(_VIT.stages[0], tokens=_VIT.stages[0].tokens + 2),),
    head=replace(_VIT.head, pool="patches", norm_last=True),
)
OTHER_SIZE = {name: arch.embed.image * 2 for name, arch in FAMILIES.items()}
Check = Callable[[str], None]


def model_of(name: str, **settings: Any) -> Any:
    """The family's tiny model in timm, in evaluation, in float64."""
    torch.manual_seed(0)
    model = timm.create_model("manyheads", arch=FAMILIES[name], **settings).double().eval()
    with torch.no_grad():  # most biases and scales start constant, which would hide a mistake
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def batch_of(name: str, rows: int = 2) -> Tensor:
    """Images."""
    return inputs(FAMILIES[name], rows, dtype=torch.float64)[0]


def near(a: Tensor, b: Tensor, within: float = 1e-9) -> None:
    """Equal but for rounding."""
    torch.testing.assert_close(a, b, rtol=within, atol=within)


@cache
def folder_of(name: str) -> str:
    """A folder that timm loads, with weights."""
    folder = Path(tempfile.mkdtemp())
    emit(FAMILIES[name], "timm", folder, name)
    model = timm.create_model(f"local-dir:{folder}")
    save_file(model.state_dict(), folder / "model.safetensors")
    return str(folder)


# ------------------------------------------------------------------------------------------------ forward and backward
def forward(name: str) -> None:
    """A batch gives finite logits, one row an image, whatever stands beside it in the batch."""
    model, images = model_of(name), batch_of(name)
    logits = model(images)
    assert logits.shape == (2, 7)
    assert logits.isfinite().all()
    near(model(images[:1])[0], logits[0])


def backward(name: str) -> None:
    """A step of training reaches every parameter with finite gradients."""
    model = model_of(name).train()
    model(batch_of(name, 4)).square().mean().backward()
    for at, parameter in model.named_parameters():
        assert parameter.grad is not None, at
        assert parameter.grad.isfinite().all(), at


def half_precision(name: str) -> None:
    """In bfloat16 and float16 the logits are near those of float32."""
    model = model_of(name)
    expected = model(batch_of(name)).float()
    for kind in (torch.bfloat16, torch.float16):
        logits = model.to(kind)(batch_of(name).to(kind))
        assert logits.dtype == kind
        near(logits.float(), expected, within=0.15 * expected.abs().max().item())


def channels_last(name: str) -> None:
    """Weights and images in the memory format `channels_last` give the same."""
    model, images = model_of(name), batch_of(name)
    expected = model(images)
    near(model.to(memory_format=torch.channels_last)(images.to(memory_format=torch.channels_last)), expected)


def device_and_precision(name: str) -> None:
    """`device` and `dtype` say where and in what precision a model is made."""
    model = timm.create_model("manyheads", arch=FAMILIES[name], device="meta", dtype=torch.bfloat16)
    assert all(p.is_meta and p.dtype == torch.bfloat16 for p in model.parameters())


def arguments(name: str) -> None:
    """`num_classes`, `in_chans`, `img_size` and the drop rates are honoured."""
    size = OTHER_SIZE[name]
    model = timm.create_model(
        "manyheads", arch=FAMILIES[name], num_classes=3, in_chans=1, img_size=size, drop_rate=0.3, drop_path_rate=0.2
    )
    assert model.eval()(torch.randn(2, 1, size, size)).shape == (2, 3)
    assert model.head.drop.p == 0.3
    assert max(getattr(part, "rate", 0.0) for part in model.modules() if type(part).__name__ == "DropPath") == 0.2
    assert (model.num_classes, model.pretrained_cfg["input_size"]) == (3, (1, size, size))


def dynamic_size(name: str) -> None:
    """Images of any size, by `dynamic_img_size`."""
    timm.create_model("manyheads", arch=FAMILIES[name], dynamic_img_size=True)


# ------------------------------------------------------------------------------------------------------- configuration
def configuration(name: str) -> None:
    """The configuration names the first convolution and the classifiers as the weights do, and timm's data follow it."""
    model = model_of(name)
    config, names = model.default_cfg, model.state_dict().keys()
    assert config is model.pretrained_cfg
    assert config["first_conv"] + ".weight" in names
    classifiers = config["classifier"]
    for classifier in [classifiers] if isinstance(classifiers, str) else classifiers:
        assert classifier + ".weight" in names
    data = timm.data.resolve_model_data_config(model)
    assert data["input_size"] == (3, FAMILIES[name].embed.image, FAMILIES[name].embed.image)
    assert timm.data.create_transform(**data)


def no_published_weights(name: str) -> None:
    """`pretrained=True` says that no weights are published."""
    try:
        timm.create_model("manyheads", arch=FAMILIES[name], pretrained=True)
    except RuntimeError as error:
        assert "No pretrained weights" in str(error)  # noqa: PT017 (timm's own refusal is the promise)
    else:
        raise AssertionError("nothing was said")


# ---------------------------------------------------------------------------------------------------------------- head
def classifier_removed(name: str) -> None:
    """Without a classifier the pooled tokens come out, by `reset_classifier(0)` and by `num_classes=0`."""
    model, images = model_of(name), batch_of(name)
    expected = model.forward_head(model.forward_features(images), pre_logits=True)
    model.reset_classifier(0)
    assert model(images).shape == (2, model.num_features)
    near(model(images), expected)
    assert model_of(name, num_classes=0)(images).shape == (2, model.num_features)
    assert isinstance(model.get_classifier(), torch.nn.Identity)


def pooling_removed(name: str) -> None:
    """Without pooling the tokens come out, by `reset_classifier(0, "")` and by `global_pool=""`, until a classifier is
    put back."""
    model, images = model_of(name), batch_of(name)
    expected = model.forward_features(images)
    model.reset_classifier(0, "")
    tokens = model(images)
    assert tokens.shape == expected.shape
    if not model.head.spec.norm_last:
        near(tokens, expected)
    assert model_of(name, num_classes=0, global_pool="")(images).shape == expected.shape
    model.reset_classifier(5)
    assert model(images).shape == (2, 5)


def head_apart(name: str) -> None:
    """Features, then the head, are the forward; before the classifier stands what it multiplies."""
    model, images = model_of(name), batch_of(name)
    features = model.forward_features(images)
    near(model.forward_head(features), model(images))
    before = model.forward_head(features, pre_logits=True)
    assert before.shape == (2, model.num_features)
    if not (model.head.spec.distill or model.head.spec.aux):
        near(model.get_classifier()(before), model(images))


# ------------------------------------------------------------------------------------------------------------- weights
def folder_loads(name: str) -> None:
    """A folder gives the same model back, and `checkpoint_path` the same weights."""
    folder, images = folder_of(name), batch_of(name).float()
    expected = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()(images)
    assert torch.equal(timm.create_model(f"local-dir:{folder}", pretrained=True).eval()(images), expected)
    loaded = timm.create_model("manyheads", arch=FAMILIES[name], checkpoint_path=f"{folder}/model.safetensors")
    assert torch.equal(loaded.eval()(images), expected)


def other_classes(name: str) -> None:
    """Weights go into a model with another number of classes: all but the classifiers."""
    model = timm.create_model(f"local-dir:{folder_of(name)}", pretrained=True, num_classes=3)
    whole = timm.create_model(f"local-dir:{folder_of(name)}", pretrained=True)
    theirs = whole.state_dict()
    different = {at for at, tensor in model.state_dict().items() if tensor.shape != theirs[at].shape}
    assert different
    assert all(at.startswith(("head.out", "head.distill", "head.aux")) for at in different)
    assert all(torch.equal(t, theirs[at]) for at, t in model.state_dict().items() if at not in different)


def other_channels(name: str) -> None:
    """Weights for colours go into a model of 1, 2 or 6 channels, as timm adapts them: a grey image gives what its
    three equal channels give."""
    folder, images = folder_of(name), batch_of(name).float()
    whole = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    grey = images.mean(dim=1, keepdim=True)
    for channels in (1, 2, 6):
        model = timm.create_model(f"local-dir:{folder}", pretrained=True, in_chans=channels).eval()
        assert model(grey.expand(-1, channels, -1, -1)).shape == (2, 7)
        if channels != 2:
            near(model(grey.expand(-1, channels, -1, -1)), whole(grey.expand(-1, 3, -1, -1)), within=1e-4)


def other_size(name: str) -> None:
    """Weights go into a model for other images, their positions interpolated, and so does a model itself."""
    folder, size = folder_of(name), OTHER_SIZE[name]
    images = torch.randn(2, 3, size, size)
    model = timm.create_model(f"local-dir:{folder}", pretrained=True, img_size=size).eval()
    changed = timm.create_model(f"local-dir:{folder}", pretrained=True).eval()
    changed.set_input_size(img_size=(size, size))
    near(changed(images), model(images), within=1e-6)
    assert changed.arch == model.arch
    assert changed.pretrained_cfg["input_size"] == (3, size, size)
    assert changed.feature_info == model.feature_info
    before = FAMILIES[name].embed.image
    changed.set_input_size(before)
    assert changed(torch.randn(1, 3, before, before)).shape == (1, 7)


def other_patches(name: str) -> None:
    """Patches of another size, by `set_input_size`."""
    model_of(name).set_input_size(patch_size=4)


# ------------------------------------------------------------------------------------------------------------ features
def intermediates(name: str) -> None:
    """`forward_intermediates` gives an image of features after each layer or stage, of the width and reduction that
    `feature_info` says, and at last what `forward_features` gives."""
    model, images = model_of(name), batch_of(name)
    last, found = model.forward_intermediates(images)
    near(last, model.forward_features(images))
    assert len(found) == len(model.feature_info)
    side = images.shape[-1]
    for image, info in zip(found, model.feature_info, strict=True):
        assert image.shape == (2, info["num_chs"], -(-side // info["reduction"]), -(-side // info["reduction"]))
    assert len({tuple(image.flatten().tolist()) for image in found}) == len(found)
    outputs: list[Tensor] = []
    for info in model.feature_info:  # each is what that module returns
        hook = lambda module, given, out: outputs.append(out[1] if isinstance(out, tuple) else out)  # noqa: E731
        model.get_submodule(info["module"]).register_forward_hook(hook)
    model(images)
    for image, tokens in zip(found, outputs, strict=True):
        assert torch.equal(image.flatten(2).transpose(1, 2), tokens[:, model.num_prefix_tokens :])


def intermediates_chosen(name: str) -> None:
    """The last so many, or those numbers, or stopping at the last one wanted, or as a dictionary."""
    model, images = model_of(name), batch_of(name)
    every = model.forward_intermediates(images, intermediates_only=True)
    count = len(every)
    for indices, kept in (
        (2, every[-2:]),
        ([0, 1], every[:2]),
        ([-1], every[-1:]),
        ((0, count - 1), [every[0], every[-1]]),
    ):
        for early in (False, True):
            some = model.forward_intermediates(images, indices, stop_early=early, intermediates_only=True)
            assert all(torch.equal(a, b) for a, b in zip(some, kept, strict=True))
    named = model.forward_intermediates(images, 1, output_dict=True)
    assert torch.equal(named["image_intermediates"][0], every[-1])
    near(named["image_features"], model.forward_features(images))


def intermediates_as_tokens(name: str) -> None:
    """As tokens, with class tokens apart and after the last norm, also as DINO's code asks for them."""
    model, images = model_of(name), batch_of(name)
    plain = model.forward_intermediates(images, output_fmt="NLC", intermediates_only=True)
    pictures = model.forward_intermediates(images, intermediates_only=True)
    for tokens, picture in zip(plain, pictures, strict=True):
        assert torch.equal(tokens, picture.flatten(2).transpose(1, 2))
    found = model.forward_intermediates(
        images, 1, return_prefix_tokens=True, norm=True, output_fmt="NLC", intermediates_only=True
    )[0]
    front = model.num_prefix_tokens
    if front:
        tokens, prefix = found
        near(torch.cat((prefix, tokens), dim=1), model.forward_features(images))
    else:
        assert found.shape == plain[-1].shape
    assert torch.equal(model.get_intermediate_layers(images, 1)[0], plain[-1])


def features_only(name: str) -> None:
    """`features_only` makes a model that returns these images, pruned to the layers it needs."""
    images = batch_of(name)
    model = timm.create_model("manyheads", arch=FAMILIES[name], features_only=True).double().eval()
    found = model(images)
    assert len(found) == len(model.feature_info.channels())
    for image, width, reduction in zip(
        found, model.feature_info.channels(), model.feature_info.reduction(), strict=True
    ):
        assert image.shape[1] == width
        assert image.shape[2] == -(-images.shape[-1] // reduction)
    first = timm.create_model("manyheads", arch=FAMILIES[name], features_only=True, out_indices=(0,)).double().eval()
    assert len(first(images)) == 1
    assert sum(p.numel() for p in first.parameters()) < sum(p.numel() for p in model.parameters())


def features_pretrained(name: str) -> None:
    """`features_only` takes weights, also without those of the classifier."""
    model = timm.create_model(
        f"local-dir:{folder_of(name)}", pretrained=True, features_only=True, out_indices=(0, 1)
    ).eval()
    whole = timm.create_model(f"local-dir:{folder_of(name)}", pretrained=True).eval()
    images = batch_of(name).float()
    expected = whole.forward_intermediates(images, (0, 1), intermediates_only=True)
    assert all(torch.equal(a, b) for a, b in zip(model(images), expected, strict=True))


def features_by_hooks(name: str) -> None:
    """timm's hooks and its graph find the layers by the names of `feature_info`."""
    images = batch_of(name)
    for kind in ("hook", "fx"):
        model = timm.create_model(
            "manyheads", arch=FAMILIES[name], features_only=True, out_indices=(0, 1), feature_cls=kind
        )
        assert len(model.double().eval()(images)) == 2


def pruned(name: str) -> None:
    """A model pruned to some layers gives the same features, without head, norm and the layers after them."""
    model, images = model_of(name), batch_of(name)
    expected = model.forward_intermediates(images, [0, 1], intermediates_only=True)
    before = sum(p.numel() for p in model.parameters())
    assert model.prune_intermediate_layers([0, 1], prune_norm=True) == [0, 1]
    found = model.forward_intermediates(images, [0, 1], intermediates_only=True)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert sum(p.numel() for p in model.parameters()) < before
    assert not any(at.startswith("head") for at, _ in model.named_parameters())


# ------------------------------------------------------------------------------------------------------------ training
def gradient_checkpointing(name: str) -> None:
    """With recomputed activations a step gives the same gradients."""
    results = []
    for enable in (False, True):
        model = model_of(name).train()
        model.set_grad_checkpointing(enable)
        assert model.grad_checkpointing is enable
        model(batch_of(name)).square().sum().backward()
        results.append({at: parameter.grad for at, parameter in model.named_parameters()})
    for at, gradient in results[0].items():
        near(results[1][at], gradient)


def layer_decay(name: str) -> None:
    """Layers get learning rates of their own, later ones higher; positions and class tokens no weight decay."""
    model = model_of(name)
    groups = timm.optim.create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.1, layer_decay=0.5).param_groups
    rates = {id(p): (group["lr_scale"], group["weight_decay"]) for group in groups for p in group["params"]}
    parameters = dict(model.named_parameters())
    assert set(rates) == {id(p) for p in parameters.values()}
    first, last = (
        next(p for at, p in items if at.startswith(("blocks.", "stages.")) and "mlp.op.inp.weight" in at)
        for items in (parameters.items(), reversed(parameters.items()))
    )
    assert rates[id(first)][0] < rates[id(last)][0] <= rates[id(model.head.out.weight)][0] == 1.0
    for at in model.no_weight_decay():
        assert rates[id(parameters[at])][1] == 0.0
    assert model.no_weight_decay() or name == "davit"  # which has neither positions nor a class token
    assert timm.models.group_parameters(model, model.group_matcher(coarse=True))


def average_and_freezing(name: str) -> None:
    """timm's moving average follows the weights, and its freezing stops them."""
    model = model_of(name)
    average = timm.utils.ModelEmaV3(model, decay=0.5)
    with torch.no_grad():
        model.head.out.bias.add_(1.0)
    average.update(model)
    near(average.module.head.out.bias, model.head.out.bias - 0.5)
    timm.utils.freeze(model)
    assert {at for at, p in model.named_parameters() if p.requires_grad} <= {"class_token"}  # it freezes modules


# ------------------------------------------------------------------------------------------------- copies and compilers
def pickles(name: str) -> None:
    """A model goes to another process, and is copied, also after its weights were loaded and it recomputes."""
    model, images = model_of(name), batch_of(name)
    model.set_grad_checkpointing()
    for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert torch.equal(again(images), model(images))
        again.load_state_dict(model.state_dict())
        assert again.grad_checkpointing


def traced(name: str) -> None:
    """`torch.jit.trace` gives the same, for another batch too."""
    model = model_of(name)
    trace = torch.jit.trace(model, batch_of(name), check_trace=False)
    near(trace(batch_of(name)), model(batch_of(name)))
    near(trace(batch_of(name, 3)), model(batch_of(name, 3)))


def scripted(name: str) -> None:
    """`torch.jit.script` compiles the model."""
    torch.jit.script(model_of(name))


def graph(name: str) -> None:
    """timm's feature extractor by torch.fx gives the logits and the features of a layer, and gradients flow through it."""
    model, images = model_of(name), batch_of(name)
    at = model.feature_info[0]["module"]
    extractor = create_feature_extractor(model, [at, "head"] if not model.head.spec.distill else [at])
    found = extractor(images)
    if "head" in found:
        near(found["head"], model(images))
    tokens = found[at][1] if isinstance(found[at], tuple) else found[at]
    expected = model.forward_intermediates(images, [0], output_fmt="NLC", intermediates_only=True)[0]
    near(tokens[:, model.num_prefix_tokens :], expected)
    extractor.train()
    tokens = extractor(images)[at]
    (tokens[1] if isinstance(tokens, tuple) else tokens).square().sum().backward()
    assert any(p.grad is not None and p.grad.abs().max() > 0 for p in extractor.parameters())


def exported(name: str) -> None:
    """`torch.export` gives the same."""
    model = model_of(name)
    program = torch.export.export(model, (batch_of(name),))
    near(program.module()(batch_of(name)), model(batch_of(name)))


def compiled(name: str) -> None:
    """`torch.compile` gives the same in one graph, in evaluation and in training."""
    torch.compiler.reset()
    model, images = model_of(name), batch_of(name)
    expected = model(images)
    whole = torch.compile(model, fullgraph=True, backend="aot_eager")
    near(whole(images), expected)
    model.train()
    whole(images).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


# fmt: off
CHECKS: tuple[Check, ...] = (
    forward, backward, half_precision, channels_last, device_and_precision, arguments, dynamic_size, configuration,
    no_published_weights, classifier_removed, pooling_removed, head_apart, folder_loads, other_classes, other_channels,
    other_size, other_patches, intermediates, intermediates_chosen, intermediates_as_tokens, features_only,
    features_pretrained, features_by_hooks, pruned, gradient_checkpointing, layer_decay, average_and_freezing, pickles,
    traced, scripted, graph, exported, compiled,
)
# fmt: on
