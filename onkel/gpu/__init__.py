"""Learning on a GPU: exact blocks as fused matrix products, in Triton (the extra ``gpu``)."""
