"""Where each tensor of a model lives in its library twin (timm, transformers): maps of names, without the library.

A map is a list of `Entry`; `into` carries a twin's weights here, `back` carries ours there, from the same list.
"""
