"""A task survives JSON exactly, and a wrong one written by hand is explained."""

from __future__ import annotations

import json

import pytest

from manyheads.spec.errors import UserError
from manyheads.tasks import TASKS, Augment, Images, Rand, Task, from_dict, to_dict

EXAMPLES: list[Task] = [
    Images(),
    Images("cifar10", augment=Augment(crop=4, flip=True), label_smoothing=0.1, limit=100),
    # Table 6 of the first paper as timm would be told: rand-m9-mstd0.5, mixup 0.8, cutmix 1, smoothing 0.1
    Images(
        "folder:imagenet",
        size=224,
        classes=1000,
        label_smoothing=0.1,
        centre=0.9,
        normalise="half",
        augment=Augment(resized=(0.08, 1.0), flip=True, rand=Rand(), mixup=0.8, cutmix=1.0),
    ),
]


@pytest.mark.parametrize("task", EXAMPLES)
def test_a_task_survives_json(task: Task) -> None:
    assert from_dict(json.loads(json.dumps(to_dict(task)))) == task


def test_what_is_left_out_keeps_its_default() -> None:
    assert from_dict({"is": "Images"}) == Images()
    assert from_dict({"is": "Images", "augment": {"is": "Augment", "crop": 2}}) == Images(augment=Augment(crop=2))


def test_every_field_is_stated() -> None:
    written = to_dict(Images(augment=Augment(rand=Rand())))
    assert written["is"] == "Images"
    assert written["augment"]["rand"] == {
        "is": "Rand",
        "ops": 2,
        "magnitude": 9.0,
        "std": 0.5,
        "chance": 0.5,
        "rising": False,
    }
    assert set(TASKS) >= {"Images"}


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (None, 'says what it "is"'),
        ({"data": "cifar10"}, 'says what it "is"'),
        ({"is": "Image"}, "did you mean Images"),
        ({"is": "Zzzz"}, "known: Images"),
        ({"is": "Images", "agument": {}}, "no field 'agument'; did you mean augment"),
        ({"is": "Images", "augment": {"is": "Augmnt"}}, 'task.augment: "is": "Augmnt" is no record'),
        ({"is": "Images", "augment": {"crop": 4}}, 'task.augment: "is": null is no record'),
        ({"is": "Images", "augment": {"is": "Augment", "zoom": 1}}, r"task.augment \(Augment\) has no field 'zoom'"),
        ({"is": "Images", "augment": {"is": "Rand"}}, "Images.augment is a Rand; write an Augment"),
        ({"is": "Rand"}, "is no task"),
        ({"is": "Images", "size": 32.5}, "Images.size is 32.5"),
        ({"is": "Images", "limit": True}, "Images.limit is True"),
    ],
)
def test_a_wrong_record_is_explained(data: object, told: str) -> None:
    with pytest.raises(UserError, match=told):
        from_dict(data)
