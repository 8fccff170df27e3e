"""Reports as single HTML pages: their look, their figures, and the report of a run."""
