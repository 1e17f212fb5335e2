"""Performance reports, the `perf-report/1` files in which students hand in measurements: can they be true?

`format` reads a file, `document` gives its parts names, the rule modules look at it, `verify` puts what they found
together. Nothing here imports torch: what has to be measured on a model is measured elsewhere and handed in.
"""
