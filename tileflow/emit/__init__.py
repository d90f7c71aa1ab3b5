"""From a region's IR and a config to the text of its kernel, in Triton or Gluon."""
