"""The live page: what models have done lately, thinned, drawn in a browser."""
