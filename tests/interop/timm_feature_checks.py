"""What timm's own tests ask of a model's features, as `timm_checks` asks the rest."""

from __future__ import annotations

import timm
import torch
from torch import Tensor

from .timm_checks import FAMILIES, Check, batch_of, folder_of, model_of, near


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


# fmt: off
CHECKS: tuple[Check, ...] = (
    intermediates, intermediates_chosen, intermediates_as_tokens, features_only, features_pretrained, features_by_hooks,
    pruned,
)
# fmt: on
