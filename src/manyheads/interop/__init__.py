"""Side doors to other libraries, imported by users and by the command line only.

resolve, load     what a name such as `vit_b`, `timm:NAME`, `hf:FOLDER` or `run:FOLDER` stands for: a record, a module
by_name           functions of a model that take its name
read_*            a record read off a transformers configuration, a timm model, or any module
timm, hf          our models where timm and transformers look for theirs
emit              a design written as files for timm, for transformers, or as Python
callbacks         kappa logged during training with transformers or Lightning
"""
