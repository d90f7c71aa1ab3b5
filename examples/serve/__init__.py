"""An inference server of a small decoder: paged cache, continuous batches, CUDA graphs, counters on a metrics page.

python -m examples.serve [--bundle BUNDLE]              serve on 127.0.0.1
python -m examples.serve.benchmark --out FILE           a decode step before and after the bundle
"""
